"""Measures of the structure of `lmtui/`: `python -m tests.structure` prints them, and `structure.json` holds them.

`--write` puts today's figures there.  Code lines are lines without blank ones, comments and docstrings; a module is a file with
more than a docstring.
"""

from __future__ import annotations

import ast
import gc
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from lmtui.tui.commands import COMMANDS

ROOT = Path(__file__).parents[1]
HELD = Path(__file__).with_name("structure.json")
# Names that every feature folder may use for its own part.
PATTERN = {
    "__init__", "model", "models", "service", "tools", "commands", "settings", "events", "screens", "views", "state", "store",
    "values",
}  # fmt: skip
SPINE = ("core", "engine", "permissions")
MOST_COLUMNS = 100
PHRASES = re.compile(
    r"\b(?:is|are|be|was|were) no (?!longer|more|one)[a-z]|\b(?:stands?|stood|anew|mend(?:s|ed)?|is told of|what would ask"
    r"|what people bring|set aside|by hand|of its own|beside|goes on|will be listed here)\b"
)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node, and what holds statements; expressions are passed over, as they are most of a tree."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


class Structure:
    """The modules of the package, parsed once."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.texts: dict[str, str] = {}
        self.folders: dict[str, str] = {}
        for path in sorted((root / "lmtui").rglob("*.py")):
            *folder, _ = path.relative_to(root / "lmtui").parts
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            self.texts[name] = path.read_text(encoding="utf-8")
            self.folders[name] = "/".join(folder[:2] if folder[:1] == ["features"] else folder[:1])
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}
        self.modules = {name for name, tree in self.trees.items() if any(not isinstance(node, ast.Expr) for node in tree.body)}
        self.imports = {name: self._imported(name) for name in self.trees}
        self.classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        for tree in self.trees.values():
            for node in statements(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name].append(node)

    def _imported(self, name: str) -> set[str]:
        found: set[str] = set()
        for node in statements(self.trees[name]):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    base = ".".join([*name.split(".")[: -node.level], *([base] if base else [])])
                found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in self.trees else base for alias in node.names}
        return (found & self.trees.keys()) - {name}

    def code_lines(self, name: str) -> int:
        """Return how many lines of a module hold code."""
        texts: set[int] = set()
        for node in (self.trees[name], *statements(self.trees[name])):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
                texts.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        lines = enumerate(self.texts[name].splitlines(), 1)
        return sum(number not in texts and not re.match(r"\s*(#|$)", line) for number, line in lines)

    def single_importer_percent(self) -> float:
        """Return the share of modules that exactly one other module imports."""
        importers = Counter(used for name in self.trees for used in self.imports[name])
        return round(100 * sum(importers[name] == 1 for name in self.modules) / len(self.modules), 2)

    def doubled_classes(self) -> set[str]:
        """Return class names that are used more than once."""
        return {name for name, found in self.classes.items() if len(found) > 1}

    def features_named(self) -> set[str]:
        """Return the features that a module of the spine is named after."""
        features = {each.name for each in (self.root / "lmtui/features").iterdir() if each.is_dir() and each.name[0] != "_"}
        spine = [name.split(".", 1)[1] for name in self.trees if name.split(".")[1:2] and name.split(".")[1] in SPINE]
        return {each for each in features for name in spine if re.search(rf"(?:^|[._]){each.rstrip('s')}s?(?:[._]|$)", name)}

    def named_in_strings(self) -> set[str]:
        """Return the modules that a string names, as `lmtui.x.y` or `x.y:name`."""
        whole = "\n".join(self.texts.values())
        words = [
            *re.findall(r'"(lmtui(?:\.\w+)+)', whole),
            *(f"lmtui.{it}" for it in re.findall(r'"((?:\w+\.)+\w+):\w+"', whole)),
        ]
        return {each for each in words if each in self.trees or each.rpartition(".")[0] in self.trees}

    def phrases(self) -> int:
        """Return how often strings and pages use a phrase that says little."""
        texts = [path.read_text(encoding="utf-8") for path in (*(self.root / "docs").rglob("*.md"), *self.root.glob("*.md"))]
        for name, text in self.texts.items():
            if PHRASES.search(re.sub(r"""["']\s+f?["']""", "", text)):  # to walk a tree takes much longer
                constants = (node.value for node in ast.walk(self.trees[name]) if isinstance(node, ast.Constant))
                texts += [value for value in constants if isinstance(value, str)]
        return sum(len(PHRASES.findall(text)) for text in texts)

    def measures(self) -> dict[str, float]:
        """Return every figure that is held, by name."""
        tracked = subprocess.run(["git", "ls-files"], cwd=self.root, capture_output=True, text=True, check=False).stdout.split(
            "\n"
        )
        pictures = [self.root / name for name in tracked if name.endswith((".svg", ".png")) and (self.root / name).exists()]
        names = Counter(name.rpartition(".")[2] for name in self.modules)
        whole = "\n".join(self.texts.values())
        code = {name: self.code_lines(name) for name in self.trees}
        folders: Counter[str] = Counter()
        for name, count in code.items():
            folders["code in lmtui/" + self.folders[name]] += count
        bases = [[getattr(base, "id", "") for base in node.bases] for found in self.classes.values() for node in found]
        return {
            "code": sum(code.values()),
            **dict(sorted(folders.items())),
            "lines": sum(text.count("\n") for text in self.texts.values()),
            "lines of tests": sum(path.read_text(encoding="utf-8").count("\n") for path in (self.root / "tests").rglob("*.py")),
            f"lines over {MOST_COLUMNS} columns": sum(len(line) > MOST_COLUMNS for line in whole.splitlines()),
            "modules": len(self.modules),
            "modules with one importer, %": self.single_importer_percent(),
            "modules named in strings": len(self.named_in_strings()),
            "module names used more than once": sum(count > 1 and name not in PATTERN for name, count in names.items()),
            "class names used more than once": len(self.doubled_classes()),
            "settings": len(re.findall(r"= _setting\(", whole)),
            "rows of the table of commands": len(COMMANDS),
            "protocols": sum("Protocol" in each for each in bases),
            "null objects": sum(bool(re.fullmatch(r"No[A-Z]\w+", name)) for name in self.classes),
            "features named in the spine": len(self.features_named()),
            "banned phrases": self.phrases(),
            "pictures": len(pictures),
            "pictures, MB": round(sum(path.stat().st_size for path in pictures) / 1e6, 1),
        }  # fmt: skip


def main() -> None:
    """Print the measures, or write them down."""
    gc.disable()  # trees are no garbage, and looked through again and again
    found = Structure().measures()
    if "--write" in sys.argv:
        HELD.write_text(json.dumps(found, indent=1) + "\n")
    if "--json" in sys.argv:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:45} {value:,}")


if __name__ == "__main__":
    main()
