"""Measures of the structure of `lmtui/`; `python -m tests.structure` prints them, `test_architecture.py` holds them."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Names that every feature folder may use for its own part.
PATTERN = {
    "__init__",
    "model",
    "models",
    "service",
    "tools",
    "commands",
    "settings",
    "events",
    "screens",
    "views",
    "state",
    "store",
}
MOST_METHODS, MOST_FIELDS = 40, 15


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node, and what holds statements; expressions are passed over, as they are most of a tree."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


class Structure:
    """The modules of the package, parsed once."""

    def __init__(self, root: Path = ROOT) -> None:
        self.trees: dict[str, ast.Module] = {}
        self.lines = 0
        for path in sorted((root / "lmtui").rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            self.lines += text.count("\n")
            self.trees[".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")] = ast.parse(text)
        self.modules = {name for name, tree in self.trees.items() if any(not isinstance(node, ast.Expr) for node in tree.body)}
        self.imports = {name: self._imported(name) for name in self.trees}
        self.classes: dict[str, list[tuple[str, ast.ClassDef]]] = defaultdict(list)
        for name, tree in self.trees.items():
            for node in statements(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name].append((name, node))

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

    def single_importer_percent(self) -> float:
        """Return the share of modules that exactly one other module imports."""
        importers = Counter(used for name in self.trees for used in self.imports[name])
        return 100 * sum(importers[name] == 1 for name in self.modules) / len(self.modules)

    def shared_names(self) -> dict[str, int]:
        """Return module names that are used more than once, outside of the feature pattern."""
        names = Counter(name.rpartition(".")[2] for name in self.modules)
        return {name: count for name, count in names.items() if count > 1 and name not in PATTERN}

    def doubled_classes(self) -> set[str]:
        """Return class names that are used more than once."""
        return {name for name, found in self.classes.items() if len(found) > 1}

    def methods(self, module: str, node: ast.ClassDef, seen: frozenset[str] = frozenset()) -> int:
        """Return how many methods a class has, with those that it inherits from classes of the package."""
        total = len({each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)})
        for base in node.bases:
            inner = base.value if isinstance(base, ast.Subscript) else base
            name = inner.id if isinstance(inner, ast.Name) else getattr(inner, "attr", "")
            found = [each for each in self.classes.get(name, []) if name not in seen and name != node.name]
            if found:
                near = [each for each in found if each[0] == module or each[0] in self.imports[module]]
                total += self.methods(*(near or found)[0], seen | {name})
        return total

    def wide_classes(self) -> dict[str, int]:
        """Return the classes with too many methods, inherited ones included."""
        counts = {
            f"{module}.{name}": self.methods(module, node) for name, all_ in self.classes.items() for module, node in all_
        }
        return {name: count for name, count in counts.items() if count > MOST_METHODS}

    def large_classes(self) -> dict[str, int]:
        """Return the classes with too many fields, events and settings aside."""
        counts = {
            f"{module}.{name}": len(_fields(node))
            for name, all_ in self.classes.items()
            for module, node in all_
            if "event" not in module and "config" not in module and "settings" not in module
        }
        return {name: count for name, count in counts.items() if count > MOST_FIELDS}


def _fields(node: ast.ClassDef) -> set[str]:
    names = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and "ClassVar" not in ast.unparse(each.annotation)
    }
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            stored = (each for each in ast.walk(method) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
            names |= {each.attr for each in stored if isinstance(each.value, ast.Name) and each.value.id == "self"}
    return names


def main() -> None:
    """Print the measures."""
    found = Structure()
    rows = {
        "lines": found.lines,
        "modules": len(found.modules),
        "modules with one importer, %": round(found.single_importer_percent(), 1),
        f"classes with more than {MOST_METHODS} methods": len(found.wide_classes()),
        f"classes with more than {MOST_FIELDS} fields": len(found.large_classes()),
        "module names used more than once": len(found.shared_names()),
        "class names used more than once": len(found.doubled_classes()),
    }
    for name, value in rows.items():
        print(f"{name:45} {value}")


if __name__ == "__main__":
    main()
