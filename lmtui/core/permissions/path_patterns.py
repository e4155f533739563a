r"""Patterns of paths in rules: `src/**`, `*.py`, `secrets`, `conf/{dev,prod}.toml`.

A pattern is relative to the workspace; one that begins with `/` matches the whole path of a file in an added folder too.  `*`
matches anything except `/`, `**` any number of folders, `?` one character, `[a-z]` or `[!a]` one of a set, `{a,b}` either; a
backslash makes one of these literal.  A last part without `*` names a file, or a
folder and everything in it.  Anything else that looks like a pattern is an error, so that no rule silently matches nothing.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

from lmtui.core.errors import UsageError

_FOLDERS = frozenset({".ssh", ".aws", ".gnupg"})
_PAIRS = ((".kube", "config"), (".docker", "config.json"))
_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.jks", "*.keystore", ".netrc", "_netrc", ".npmrc",
    ".pypirc", ".pgpass", ".git-credentials", ".htpasswd",
)  # fmt: skip
_OPEN_ENDED = ("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials*", "secrets.*")
_ENV_SHOWN = (".example", ".sample", ".template")
# Package managers put public files there: libraries ship test keys, tools ship an example `credentials.json`.
_DEPENDENCIES = (
    "node_modules", ".venv", "venv", "site-packages", ".tox", "__pycache__", "vendor", "target", ".cargo", "go/pkg",
)  # fmt: skip
# Source and prose: `credentials.py` is code that handles credentials, `id_rsa.pub` is meant to be shown.
_HARMLESS_ENDS = (
    ".py", ".pyi", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".swift", ".c", ".h", ".cc",
    ".cpp", ".hpp", ".cs", ".rb", ".php", ".lua", ".sh", ".md", ".rst", ".html", ".css", ".scss", ".vue", ".svelte", ".pub",
)  # fmt: skip


def secret_regex() -> str:
    """Return the expression of the paths whose contents a sandbox hides; see `core.masks` for how to use it.

    It ignores look-alike letters and skips dependency folders.
    """
    names = "|".join(_name_regex(name) for name in _NAMES)
    opened = "|".join(_name_regex(name) for name in _OPEN_ENDED)
    pairs = "|".join(f"{re.escape(folder)}/{re.escape(name)}" for folder, name in _PAIRS)
    folders = "|".join(map(re.escape, _FOLDERS))
    dependencies = "|".join(map(re.escape, _DEPENDENCIES))
    shown = rf"\.env[^/]*(?:{'|'.join(map(re.escape, _ENV_SHOWN))})(?:/|\Z)"
    ends = rf"[^/]*(?:{'|'.join(map(re.escape, _HARMLESS_ENDS))})(?:/|\Z)"
    one = rf"(?:(?:{folders}|{pairs})(?:/|\Z)|(?!{shown})(?:{names})\Z|(?!{ends})(?:{opened})\Z)"
    return rf"(?si:(?!(?:[^/]*/)*?(?:{dependencies})/)(?:[^/]*/)*?{one})"


def _name_regex(name: str) -> str:
    return re.escape(name).replace(r"\*", "[^/]*")


def is_secret_path(path: str) -> bool:
    """Tell whether a path names a file (or a folder of files) that holds secrets; case and look-alike forms do not matter."""
    plain = "/".join(part for part in _folded(path).split("/") if part not in ("", "."))
    return _SECRET.match(plain) is not None


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


_SECRET = re.compile(rf"{secret_regex()}|proc/(?:.*/)?environ\Z", re.DOTALL)


EVERYTHING = "*"
WILDCARDS = r"*?\[{"
_MOST_CHARS, _MOST_ALTERNATIVES = 4096, 64
_SPECIAL = "*?[]{},!\\ '\"~"
_ANY_CHAR = r"(?>[^/\x80-\xff]|[\xc2-\xf4][\x80-\xbf]+|[\x80-\xff])"
_PART = r"(?:\\.|\[[^\]/]*\]|[^/\\\[\]])*"
_NEVER = "(?!)"


def normalize(pattern: str) -> str:
    """Return the normalized pattern: `./x` and `x/` become `x`; `.`, `/` and `/**` mean everything.

    Raises:
        UsageError: it is not a valid pattern of workspace paths.
    """
    if pattern == EVERYTHING:
        return pattern
    if not pattern or len(pattern) > _MOST_CHARS or "\0" in pattern:
        raise UsageError("it is empty, too long or contains a NUL character")
    if pattern[0] in " \t\n'\"!~" or re.search(r"(?<!\\)(?:\\\\)*[ \t\n]\Z", pattern):
        raise UsageError(
            "it begins with a space, a quote, ! or ~, or ends with a space", "Put a backslash before that character."
        )
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    text = "/".join(parts) or "**"
    for alternative in alternatives(text):
        _check(alternative)
    return f"/{text}" if pattern.startswith("/") and text != "**" else text


def escape(path: str) -> str:
    """Return a pattern that matches exactly this path."""
    return re.sub(r"([*?\[\]{},!\\'\"~]|\A[ \t\n]|[ \t\n]\Z)", r"\\\1", path)


def matches(pattern: str, path: str, *, covers_below: bool = False) -> bool:
    """Tell whether a pattern matches a path; with `covers_below` also a path in a folder that it matches.

    Takes time linear in the path for any pattern.
    """
    if pattern == EVERYTHING:
        return True
    data = path.removeprefix("./").encode("utf-8", "surrogatepass")
    return _compiled(pattern, covers_below).match(data) is not None


def can_be_below(pattern: str, folder: str) -> bool:
    """Tell whether a folder may contain a path that a pattern matches; `.` and an empty folder are the workspace itself."""
    wanted_folder = [part for part in folder.split("/") if part not in ("", ".")]
    if pattern == EVERYTHING or not wanted_folder:
        return True
    return any(_meets_folder(each.lstrip("/").split("/"), wanted_folder) for each in alternatives(pattern))


def _meets_folder(wanted: list[str], folder: list[str]) -> bool:
    for i, part in enumerate(folder):
        if i >= len(wanted):
            return "*" not in wanted[-1]
        if wanted[i] == "**":
            return True
        if not matches(wanted[i], part):
            return False
    return True


@lru_cache(maxsize=1024)
def _compiled(pattern: str, covers_below: bool) -> re.Pattern[bytes]:
    return re.compile(regex((pattern,), covers_below=covers_below).encode())


def regex(patterns: tuple[str, ...], *, covers_below: bool = True) -> str:
    """Return one regular expression for normalized patterns: ASCII, for `re.compile(it.encode()).match(path)` of bytes.

    Each star stops at the first place where the rest matches, without backtracking, so every path takes linear time.
    """
    found = [_one_regex(each, covers_below) for pattern in patterns for each in alternatives(pattern)]
    return f"(?s:(?:{'|'.join(dict.fromkeys(found))}))" if found else _NEVER


def _one_regex(pattern: str, covers_below: bool) -> str:
    if pattern == EVERYTHING:
        return ""
    if pattern.startswith("/"):
        return "/?" + _one_regex(pattern[1:], covers_below)
    *folders, last = pattern.split("/")
    end = r"(?:/|\Z)" if covers_below or "*" not in re.sub(r"\\.", "", last) else r"\Z"
    runs: list[list[str]] = [[]]
    for part in (*folders, last):
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_part_regex(part))
    if last == "**":  # all below: one more name
        runs[-1].append("[^/]+")
        end = r"(?:/|\Z)"
    middle = [f"(?>(?:[^/]*/)*?{'/'.join(run)}/)" for run in runs[1:-1] if run]
    first = "/".join(runs[0])
    if len(runs) == 1:
        return first + end
    return (f"{first}/" if first else "") + "".join(middle) + f"(?>(?:[^/]*/)*?{'/'.join(runs[-1])}{end})"


def _part_regex(part: str) -> str:
    """Return the expression for one path component."""
    pieces: list[str] = [""]
    for sign in re.findall(r"\\.|\[[^\]]+\]|.", part, re.DOTALL):
        if sign == "*":
            pieces.append("")
        elif sign == "?":
            pieces[-1] += _ANY_CHAR
        else:
            pieces[-1] += _set_regex(sign[1:-1]) if len(sign) > 2 else _bytes_regex(sign[-1])
    if len(pieces) == 1:
        return pieces[0]
    stars = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece)
    return f"{pieces[0]}{stars}(?>[^/]*?{pieces[-1]}(?=/|\\Z))"


def _set_regex(inner: str) -> str:
    is_negated = inner[0] in "!^"
    members = inner[is_negated:]
    parts: list[str] = []
    while members:
        if len(members) > 2 and members[1] == "-":
            parts.append(f"[{_bytes_regex(members[0])}-{_bytes_regex(members[2])}]")
            members = members[3:]
        else:
            parts.append(_bytes_regex(members[0]))
            members = members[1:]
    one = f"(?:{'|'.join(parts)})"
    return f"(?!{one}){_ANY_CHAR}" if is_negated else one


def _bytes_regex(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def _check(pattern: str) -> None:
    """Raise if one alternative of a pattern is not valid."""
    if not pattern or any(part in ("", ".", "..") for part in pattern.split("/")):
        raise UsageError(
            "it leads out of the workspace or has an empty part", "Write paths relative to the workspace root, without `..`."
        )
    for match in re.finditer(r"\\(.|\Z)", pattern, re.DOTALL):
        if match[1] not in (*_SPECIAL, "\t", "\n"):
            raise UsageError("it has a backslash before an ordinary character", "Separate folders with `/`.")
    for part in pattern.split("/"):
        bare = re.sub(r"\\.", "_", part, flags=re.DOTALL)
        if "**" in bare and bare != "**":
            raise UsageError("it uses ** next to other characters", "Write `src/**/*.py` instead of `src/**.py`.")
        if re.fullmatch(_PART, part, re.DOTALL) is None:
            raise UsageError("its brackets are not closed, or contain a `/`", "Write a bracket in a name as `\\[`.")
        for found in re.finditer(r"(?:\\.)|\[([^\]]*)\]", part, re.DOTALL):
            if found[1] is not None:
                _check_set(found[1])


def _check_set(inner: str) -> None:
    members = inner[1:] if inner[:1] in ("!", "^") else inner
    is_odd = not members or "\\" in members or "[" in members or "," in members or "/" in members
    ranges = re.findall(r"(.)-(.)", members, re.DOTALL)
    if is_odd or any(low > high or max(low, high) > "\x7f" for low, high in ranges):
        raise UsageError(
            f"[{inner}] is not a set of characters", "Write `[a-z]`, `[abc]` or `[!a]`, or a bracket in a name as `\\[`."
        )


@lru_cache(maxsize=1024)
def alternatives(pattern: str) -> tuple[str, ...]:
    """Return a pattern's alternatives without braces.

    Raises:
        UsageError: its braces are not closed, contain only one choice, or make too many alternatives.
    """
    done: list[str] = []
    todo = [pattern]
    while todo:
        text = todo.pop()
        edges = _first_brace(text)
        if not edges:
            done.append(text)
            continue
        todo += [text[: edges[0]] + text[a + 1 : b] + text[edges[-1] + 1 :] for a, b in pairwise(edges)]
        if len(todo) + len(done) > _MOST_ALTERNATIVES:
            raise UsageError(f"its braces make more than {_MOST_ALTERNATIVES} alternatives")
    return tuple(dict.fromkeys(done))


def _first_brace(text: str) -> list[int]:
    """Return where the first outer brace opens, its commas and where it closes; nothing without braces."""
    depth, edges = 0, list[int]()
    for found in re.finditer(r"\\.|[{},]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if found[0] in "{,}" and depth == (found[0] != "}"):
            edges.append(found.start())
        if found[0] == "}" and depth <= 0:
            break
    if depth or len(edges) == 2:
        raise UsageError("its braces are not closed or contain only one choice", "Write a brace in a name as `\\{`.")
    return edges
