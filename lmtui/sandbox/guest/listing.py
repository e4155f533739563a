"""Finding files in the workspace: listings of any length, git's view of them, and search by name and content.

A listing is a text of NUL-ended records, as raw as the disk has it, packed so that it travels in one answer.  ripgrep, where
it is on PATH, never sees a path from outside: it is started in a folder that was opened below the root, or reads an open file.
git runs with programs and prompts off: drivers have names that the repository chooses, so those that exist are switched off.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from . import beneath, execute, files
from .beneath import Refused, Root
from .protocol import Message, pack
from .settings import Settings

_SKIPPED = frozenset((".git", ".lmagent", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".tox"))
_BASE = (
    "--no-config",
    "--hidden",
    "--no-messages",
    "--no-ignore-dot",
    "--no-ignore-global",
    *(f"--glob=!{name}" for name in _SKIPPED),
)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_MAX_LINE = 500
_MAX_FILE_BYTES = 4_194_304
_MAX_FILES = 100_000
_MAX_RESULT_BYTES = 600_000  # as it travels: letters beyond ASCII are six bytes each


class Query(NamedTuple):
    """What to search for; `glob` is a regular expression over paths, already translated, or empty."""

    pattern: str
    path: str
    glob: str
    ignore_case: bool
    is_literal: bool
    context_lines: int
    max_matches: int


def glob(root: Root, expression: str, max_results: int) -> Message:
    """Return files whose path matches a regular expression, newest first.

    Raises:
        Refused: the names that are asked for do not fit into one answer.
    """
    matches = re.compile(expression).match
    with root.opened("", _FOLDER) as (folder, _):
        dated: list[tuple[float, str]] = []
        for path in _files(folder):
            if matches(path) and not beneath.is_protected(path):
                try:
                    info = os.stat(path, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue
                dated.append((info.st_mtime, path))
    dated.sort(key=lambda item: (-item[0], item[1]))
    paths = [path for _, path in dated[:max_results]]
    if len(json.dumps(paths)) > _MAX_RESULT_BYTES:
        raise Refused(f"the names of {len(paths):,} files are too much for one answer: use a pattern that matches fewer")
    return {"paths": paths}


def grep(root: Root, query: Query) -> Message:
    """Return matching lines as [path, line number, text, is context]."""
    lines = _grep_by_rg(root, query) if shutil.which("rg") else _grep_by_python(root, query)
    found: list[list[object]] = []
    matches = size = 0
    for line in lines:
        matches += not line[3]
        size += len(json.dumps(line))
        if matches > query.max_matches or size > _MAX_RESULT_BYTES:
            break
        found.append(line)
    return {"matches": found}


def _files(folder: int) -> Iterator[str]:
    program = shutil.which("rg")
    if program is None:
        yield from walk(folder, "")
        return
    with _start([program, "--files", "--null", *_BASE], folder) as process:
        assert process.stdout is not None
        rest = b""
        while piece := process.stdout.read(65536):
            *names, rest = (rest + piece).split(b"\0")
            for name in names:
                yield name.decode("utf-8", "replace")


_Rule = tuple[re.Pattern[str], bool, bool]  # what it matches, whether that is not ignored, whether only folders
_IGNORE_TOKEN = re.compile(r"\\(.)|\[([!^]?)([^\]/]+)\]|(\*\*/)|(/\*\*)\Z|(\*+)|(\?)|(.)", re.DOTALL)
_MAX_IGNORE_BYTES = 262_144


def walk(folder: int, prefix: str, max_entries: int = _MAX_FILES) -> Iterator[str]:
    """Yield files in an open folder, from `prefix` on, without following links, what is never meant, and what git ignores."""
    left = max_entries
    above = [f"{prefix[:at]}/.gitignore" for at, char in enumerate(prefix) if char == "/"]
    rules = [rule for name in (".git/info/exclude", ".gitignore", *above) for rule in _ignore_rules(folder, name)]
    queue = [(prefix, rules)]
    while queue and left > 0:
        here, rules = queue.pop()
        try:
            fd = os.open(here or ".", _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            continue
        try:
            with os.scandir(fd) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        finally:
            os.close(fd)
        if here and any(entry.name == ".gitignore" for entry in entries):
            rules = [*rules, *_ignore_rules(folder, f"{here}/.gitignore")]
        for entry in entries:
            left -= 1
            path = f"{here}/{entry.name}" if here else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _SKIPPED or _is_ignored(path, rules, is_folder=is_folder):
                continue
            if is_folder:
                queue.append((path, rules))
            elif entry.is_file(follow_symlinks=False):
                yield os.fsencode(path).decode("utf-8", "replace")


def _ignore_rules(folder: int, name: str) -> list[_Rule]:
    """Return the rules of an ignore file, as gitignore(5) describes them; none where it cannot be read."""
    try:
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            lines = file.read(_MAX_IGNORE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    base = name.rpartition("/")[0] if name.endswith("/.gitignore") else ""
    rules: list[_Rule] = []
    for line in lines:
        text = re.sub(r"(?<!\\) +\Z", "", line)
        pattern = text.removeprefix("!").rstrip("/")
        if pattern and not text.startswith("#"):
            start = (re.escape(base) + "/" if base else "") + ("" if "/" in pattern else "(?:.*/)?")
            source = start + _IGNORE_TOKEN.sub(_ignore_part, pattern.removeprefix("/"))
            with suppress(re.error):
                rules.append((re.compile(source, re.DOTALL), text.startswith("!"), text.endswith("/")))
    return rules


def _ignore_part(found: re.Match[str]) -> str:
    literal, negation, members, folders, below, stars, one, char = found.groups()
    if members:
        return f"[{'^' if negation else ''}{re.escape(members).replace(re.escape('-'), '-')}]"
    if folders or below:
        return "(?:.*/)?" if folders else "/.*"
    return "[^/]*" if stars else "[^/]" if one else re.escape(literal or char)


def _is_ignored(path: str, rules: list[_Rule], *, is_folder: bool) -> bool:
    """Tell whether the last rule that matches a path ignores it."""
    for expression, is_kept, only_folders in reversed(rules):
        if (is_folder or not only_folders) and expression.fullmatch(path):
            return not is_kept
    return False


def _grep_by_rg(root: Root, query: Query) -> Iterator[list[object]]:
    program = shutil.which("rg")
    assert program is not None
    arguments = [program, "--json", "--sort=path", *_BASE, f"--context={query.context_lines}"]
    arguments += ["--ignore-case"] if query.ignore_case else []
    arguments += ["--fixed-strings"] if query.is_literal else []
    arguments += ["-e", query.pattern]
    fd, real = root.open(query.path, os.O_RDONLY)
    try:
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        if not is_folder:
            os.close(fd)
            fd, real = root.open_file(query.path)
        # A single file is read as standard input: its name is not looked up a second time.
        with _start([*arguments, "./" if is_folder else "-"], fd if is_folder else None, None if is_folder else fd) as process:
            yield from _read_rg(process, real, is_folder, query)
    finally:
        os.close(fd)


def _read_rg(process: subprocess.Popen[bytes], real: str, is_folder: bool, query: Query) -> Iterator[list[object]]:
    assert process.stdout is not None
    matches = re.compile(query.glob).match if query.glob else None
    for raw in process.stdout:
        event = json.loads(raw)
        if event["type"] not in ("match", "context"):
            continue
        data = event["data"]
        name = _text(data["path"])
        path = os.path.normpath(f"{real}/{name}").lstrip("/") if is_folder else real
        if beneath.is_protected(path) or (matches and not matches(path)):
            continue
        yield [path, data["line_number"], _text(data["lines"]).rstrip("\n")[:_MAX_LINE], event["type"] == "context"]
    if process.wait() == 2 and process.stderr is not None:
        reason = process.stderr.read(2000).decode("utf-8", "replace").strip()
        if reason:
            raise Refused(f"the search failed: {reason}")


def _grep_by_python(root: Root, query: Query) -> Iterator[list[object]]:
    try:
        source = re.escape(query.pattern) if query.is_literal else query.pattern
        expression = re.compile(source, re.IGNORECASE if query.ignore_case else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        raise Refused(f"the search failed: not a regular expression: {error}") from error
    matches = re.compile(query.glob).match if query.glob else None
    fd, real = root.open(query.path, os.O_RDONLY)
    try:
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        names = list(walk(root.fd, real)) if is_folder else [real]
    finally:
        os.close(fd)
    for path in sorted(names):
        if not matches or matches(path):
            yield from _grep_file(root, path, expression, query.context_lines)


def _grep_file(root: Root, path: str, expression: re.Pattern[str], around: int) -> Iterator[list[object]]:
    try:
        fd, _ = root.open_file(path)
    except Refused:
        return
    with os.fdopen(fd, "rb") as file:
        data = file.read(_MAX_FILE_BYTES)
    if b"\0" in data[:8192]:
        return
    lines = [line.removesuffix("\r") for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n")]
    hits = {number for number, line in enumerate(lines) if expression.search(line)}
    wanted = {near for hit in hits for near in range(max(0, hit - around), min(len(lines), hit + around + 1))}
    for number in sorted(wanted):
        yield [path, number + 1, lines[number][:_MAX_LINE], number not in hits]


def _start(arguments: list[str], folder: int | None, source: int | None = None) -> subprocess.Popen[bytes]:
    """Start ripgrep in an open folder."""
    if folder is not None:
        os.fchdir(folder)  # the keeper is a process of its own
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL if source is None else source,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath)},
    )


def _text(value: dict[str, str]) -> str:
    if "text" in value:
        return value["text"]
    return os.fsdecode(value.get("bytes", "")).encode("ascii", "replace").decode("ascii")


_HERE = Path(__file__).resolve().parent
_READS = frozenset((
    "blame", "branch", "cat-file", "check-ignore", "describe", "diff", "diff-tree", "for-each-ref", "grep", "log", "ls-files",
    "ls-tree", "merge-base", "name-rev", "rev-list", "rev-parse", "shortlog", "show", "show-ref", "status", "tag", "var",
    "remote",
))  # fmt: skip
_WRITES = _READS | frozenset((
    "add", "checkout", "cherry-pick", "commit", "init", "merge", "mv", "rebase", "reset", "restore", "revert", "rm", "stash",
    "switch",
))  # fmt: skip
_REMOTES = frozenset(("fetch", "pull", "push"))
_SIGNS = {"commit.gpgsign": frozenset(("commit", "cherry-pick", "merge", "pull", "rebase", "revert")),
          "tag.gpgsign": frozenset(("tag",))}  # fmt: skip
_CHECKS_OUT = frozenset(("checkout", "cherry-pick", "merge", "pull", "rebase", "reset", "restore", "revert", "stash", "switch"))
_HOOKS = {
    "commit": "pre-commit prepare-commit-msg commit-msg post-commit", "merge": "pre-merge-commit commit-msg post-merge",
    "pull": "pre-merge-commit post-merge pre-rebase", "push": "pre-push", "rebase": "pre-rebase post-rewrite",
    "checkout": "post-checkout", "switch": "post-checkout", "cherry-pick": "prepare-commit-msg", "revert": "prepare-commit-msg",
}  # fmt: skip
_SHOW_DIFFS = frozenset(("diff", "log", "show", "diff-tree", "stash"))
_FORBIDDEN = (
    "--output", "--ext-diff", "--textconv", "--upload-pack", "--receive-pack", "--exec", "--exec-path", "--config-env",
    "--git-dir", "--work-tree", "--template", "--separate-git-dir", "--open-files-in-pager", "--no-index", "--edit",
    "--interactive", "--patch-with-editor", "--super-prefix", "--namespace", "--submodule",
)  # fmt: skip
_FORBIDDEN_SHORT = {"grep": ("-O",), "rebase": ("-x", "-i"), "diff": ("-O",), "log": ("-O",), "show": ("-O",)}
_DRIVERS = (
    r"^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver|diff\..*\.(textconv|command)|"
    r"remote\..*\.(vcs|uploadpack|receivepack)|credential\..*\.helper|http\..*(cookiefile|savecookies))$"
)
_SWITCHED_OFF = {
    ("merge", "driver"): "false", ("diff", "textconv"): "cat", ("diff", "command"): "false", ("http", "savecookies"): "false",
    ("remote", "uploadpack"): "git-upload-pack", ("remote", "receivepack"): "git-receive-pack",
}  # fmt: skip
_CONFIG_S = 5.0
_SUBMODULE = "160000 "  # the mode of one in git's index
_MOST_REPOSITORIES = 200
_OPTIONS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.editor=true", "core.sshCommand=false",
    "core.askPass=", "credential.helper=", "diff.external=", "sequence.editor=false", "commit.gpgSign=false",
    "tag.gpgSign=false", "push.gpgSign=false", "gpg.program=false", "gc.auto=0", "maintenance.auto=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit", "safe.directory=*", "submodule.recurse=false", "color.ui=false",
    "advice.detachedHead=false", "log.showSignature=false", "gpg.ssh.program=false",
    "gpg.x509.program=false", "gpg.ssh.defaultKeyCommand=false", "core.alternateRefsCommand=false",
    "diff.submodule=short", "status.submoduleSummary=false", "init.templateDir=", "core.protectHFS=true",
    "core.protectNTFS=true", "rebase.instructionFormat=%s", "receive.denyCurrentBranch=refuse",
)  # fmt: skip


def git_command(arguments: list[str], settings: Settings, reach: str = "") -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the argument list and the environment for a git call; `reach` are protocols for one that uses another repository.

    Raises:
        Refused: git is off here, not installed, or the call is not one of those that are allowed.
    """
    if not settings.has_git:
        raise Refused("git is not available without a sandbox")
    if settings.git_problem:
        raise Refused(settings.git_problem)
    program = shutil.which("git")
    if program is None:
        raise Refused("git is not installed in the sandbox")
    _check(arguments, _REMOTES if reach and settings.git_writes else _WRITES if settings.git_writes else _READS)
    subcommand, rest = arguments[0], arguments[1:]
    ignored = f"{os.path.dirname(settings.git_config)}/excludes" if settings.git_config else f"{_HERE}/gitignore"
    options = [piece for option in (*_OPTIONS, f"core.excludesFile={ignored}") for piece in ("-c", option)]
    locks = [] if settings.git_writes else ["--no-optional-locks"]
    plain = ["--no-ext-diff", "--no-textconv"] if subcommand in _SHOW_DIFFS - {"stash"} else []
    plain += ["--no-textconv"] if subcommand in ("blame", "grep") else []
    plain += (
        ["--ignore-submodules=dirty"] if subcommand in ("diff", "status") else []
    )  # else git runs there, without these options
    if reach:
        plain += ["--no-recurse-submodules"]
        service = "receive-pack" if subcommand == "push" else "upload-pack"
        there = shlex.join([program, *options, service])  # a local repository's settings name programs, too
        plain += [f"--{service}={there}"] if "file" in reach else []
    if _place(settings):
        plain += ["--relative"] if subcommand == "diff" else []
        is_whole = not any(not word.startswith("-") for word in rest)
        rest += ["--", "."] if is_whole and subcommand in ("add", "status") else []
    whole = (program, *options, "--no-pager", *locks, subcommand, *plain, *rest)
    is_free = subcommand in ("check-ignore", "stash")  # they refuse this, or use patterns themselves
    literal = {"GIT_LITERAL_PATHSPECS": "0"} if is_free else {}
    return whole, {**settings.environment, **_environment(settings, reach), **literal}


def _place(settings: Settings) -> str:
    """Return the workspace's place in its repository with a `/` behind it, empty at the top."""
    is_part = settings.git_top not in ("", settings.root)
    return f"{os.path.relpath(settings.root, settings.git_top)}/" if is_part else ""


def git_environment(environment: dict[str, str], program: str, arguments: list[str], settings: Settings) -> dict[str, str]:
    """Return the environment of a git call with every driver switched off that settings name, submodules' too.  Blocks.

    Git runs itself in submodules (`git add .` asks each what changed), and hands this environment on.  Where git writes, a
    file that wants a filter is refused rather than stored unfiltered; submodules are only compared.

    Raises:
        Refused: the settings cannot be read or followed, or there are too many submodules.
    """
    values: dict[str, str] = {}
    own = _of_repository(environment, settings)
    for at, folder in enumerate(_repositories(own, environment, program, settings)):
        used = environment if at else own
        for name in _listed(used, program, folder, "config", "--includes", "-z", "--name-only", "--get-regexp", _DRIVERS):
            kind, last = name.split(".")[0], name.rpartition(".")[2]
            if last != "required":
                values[name] = _SWITCHED_OFF.get((kind, last), "")
            if kind == "filter":
                values.setdefault(f"{name.rpartition('.')[0]}.required", str(settings.git_writes and at == 0).lower())
    if settings.git_writes:
        filters = {name.split(".", 1)[1].rpartition(".")[0] for name in values if name.startswith("filter.")}
        _check_settings(own, program, arguments, settings, sorted(filters))
    pairs = {f"GIT_CONFIG_KEY_{i}": name for i, name in enumerate(values)}
    pairs |= {f"GIT_CONFIG_VALUE_{i}": value for i, value in enumerate(values.values())}
    return {**own, **pairs, "GIT_CONFIG_COUNT": str(len(values))}


def _of_repository(environment: dict[str, str], settings: Settings) -> dict[str, str]:
    return {**environment, "GIT_DIR": settings.git_dir, "GIT_WORK_TREE": settings.git_top} if settings.git_dir else environment


def _check_settings(
    environment: dict[str, str], program: str, arguments: list[str], settings: Settings, filters: list[str]
) -> None:
    """Refuse a call that would have to sign, to filter, to run commands, or to change files outside the workspace."""
    subcommand, words = arguments[0], frozenset(arguments[1:])

    def listed(*call: str) -> list[str]:
        return _listed(environment, program, settings.root, *call)

    if words & {"--abort", "--quit"}:
        return
    for name in (name for name, signing in _SIGNS.items() if subcommand in signing and not words & {"-d", "--delete"}):
        value = ("config", "-z", "--type=bool", "--get")
        if (listed(*value, name) or listed(*value, f"lmtui.{name}")) == ["true"]:
            raise Refused(
                f"{name} is set and gpg cannot run in the sandbox: run git {subcommand} in a terminal, "
                f"or do not sign in this repository (git config {name} false)"
            )
    if words & {"--continue", "--skip"} and any(map(_runs_commands, _todo_lists(settings))):
        raise Refused(f"git {subcommand}: the work under way runs commands (exec): go on in a terminal")
    if _place(settings):
        _check_part(environment, program, arguments, settings)
    for name in filters if _changes_files(arguments) else ():
        environment = {**environment, "GIT_LITERAL_PATHSPECS": "0"}
        where = f":(top,attr:filter={name})" if re.fullmatch(r"[\w.-]+", name) else ":(top,attr:filter)"
        if found := listed("ls-files", "-z", "--full-name", where):
            raise Refused(
                f"{found[0]} goes through the filter {name} of git's settings, which cannot run in the sandbox: "
                f"run git {subcommand} in a terminal"
            )


def _check_part(environment: dict[str, str], program: str, arguments: list[str], settings: Settings) -> None:
    """Refuse a call that would change files of the repository that are outside the workspace."""
    subcommand, words = arguments[0], arguments[1:]
    whole = f"files outside this folder: open {settings.git_top} for that"
    inside = [os.path.relpath(os.path.join(settings.root, word), settings.root) for word in words]
    if any(path == ".." or path.startswith(("../", ":")) for path in inside):
        raise Refused(f"git {subcommand} names {whole}")
    names_paths = subcommand == "restore" or (subcommand in ("checkout", "stash") and "--" in arguments[:-1])
    if _changes_files(arguments) and not names_paths:
        raise Refused(f"git {subcommand} changes {whole}")
    if subcommand != "commit":
        return
    if any(re.match(r"-[^-m]*a|--all", word) for word in words):
        raise Refused(f"git commit -a may take {whole}, or stage what is here with git add .")
    staged = _listed(environment, program, settings.root, "diff", "--cached", "--name-only", "-z")
    if other := next((name for name in staged if not name.startswith(_place(settings))), ""):
        raise Refused(f"{other} is staged, too, and git commit would take {whole}")


def _changes_files(arguments: list[str]) -> bool:
    """Tell whether a call may change files of the work tree."""
    subcommand, words = arguments[0], frozenset(arguments[1:])
    match subcommand:
        case "reset":
            return bool(words & {"--hard", "--keep", "--merge"})
        case "restore":
            return not words & {"--staged", "-S"} or bool(words & {"--worktree", "-W"})
        case "stash":
            return arguments[1:2] not in (["drop"], ["clear"])
        case "checkout" | "switch" if words & {"-b", "-c", "--create"}:
            return sum(not word.startswith("-") for word in words) != 1  # else a branch from here
    return subcommand in _CHECKS_OUT


def _todo_lists(settings: Settings) -> Iterator[str]:
    for name in ("rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo", "sequencer/todo"):
        with suppress(OSError):
            yield Path(settings.git_dir or f"{settings.root}/.git", name).read_text(encoding="utf-8", errors="replace")


def _runs_commands(todo: str) -> bool:
    return re.search(r"^\s*(?:x|exec)\b", todo, re.MULTILINE) is not None


def skipped_hooks(environment: dict[str, str], program: str, subcommand: str, settings: Settings) -> list[str]:
    """Return the hooks that the user's git would have run.  Blocks."""
    wanted, environment = _HOOKS.get(subcommand, "").split(), _of_repository(environment, settings)
    if not wanted or not settings.git_writes:
        return []
    own = _listed(environment, program, settings.root, "config", "-z", "--get", "core.hooksPath")
    users = _listed(environment, program, settings.root, "config", "-z", "--get", "lmtui.core.hooksPath")
    if users and not own:
        return [f"those in {users[0]}"]
    folder = "".join(_listed(environment, program, settings.root, "rev-parse", "--git-path", "hooks")).strip()
    return [name for name in wanted if os.access(os.path.join(settings.root, folder, name), os.X_OK)]


def _repositories(own: dict[str, str], environment: dict[str, str], program: str, settings: Settings) -> list[str]:
    """Return the repository's top and its submodules, recursively, as far as git would enter them."""
    found = [os.path.realpath(settings.git_top or settings.root)]
    for at, folder in enumerate(found):
        for entry in _listed(environment if at else own, program, folder, "ls-files", "--stage", "-z"):
            inner = f"{folder}/{entry.partition(chr(9))[2]}"
            if entry.startswith(_SUBMODULE) and os.path.lexists(f"{inner}/.git") and os.path.realpath(inner) == inner:
                found.append(inner)
        if len(found) > _MOST_REPOSITORIES:
            raise Refused(f"there are more than {_MOST_REPOSITORIES} submodules")
    return found


def _listed(environment: dict[str, str], program: str, folder: str, *arguments: str) -> list[str]:
    """Return the NUL-separated output of a git call; nothing outside a repository."""
    command = [program, "-c", "core.fsmonitor=false", *arguments]
    try:
        found = subprocess.run(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CONFIG_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("reading git's settings took too long") from error
    is_none = b"not a git repository" in found.stderr or b"not in a git directory" in found.stderr
    if found.returncode not in (0, 1) and not is_none:  # git-config(1): 1 means not set
        raise Refused(f"git's settings could not be read: {os.fsdecode(found.stderr[-500:]).strip()}")
    return [entry for entry in os.fsdecode(found.stdout).split("\0") if entry]


def _environment(settings: Settings, reach: str) -> dict[str, str]:
    return {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": settings.git_config or str(_HERE / "gitconfig"),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "true",
        "GIT_PAGER": "cat",
        "GIT_ALLOW_PROTOCOL": reach or "none",
        "GIT_PROXY_COMMAND": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_LITERAL_PATHSPECS": "1",
    }


def _check(arguments: list[str], allowed: frozenset[str]) -> None:
    if not arguments:
        raise Refused("git: no subcommand")
    subcommand = arguments[0]
    if subcommand not in allowed:
        raise Refused(f"git {subcommand} is not allowed here")
    for before, argument in pairwise(arguments):
        if "\0" in argument:
            raise Refused("git: an argument has a NUL character in it")
        if argument in ("--", "--end-of-options") and not before.startswith("-"):  # else it may be a value
            return
        name = argument.split("=", 1)[0]
        is_long = len(name) > 3 and name.startswith("--") and any(option.startswith(name) for option in _FORBIDDEN)
        if is_long or name in _FORBIDDEN or argument.startswith(_FORBIDDEN_SHORT.get(subcommand, ("\0",))):
            raise Refused(f"git {subcommand}: the option {name} is not allowed")


MAX_BYTES = 16_777_216
MAX_RESULT_BYTES = 24_000_000  # packed, where nothing of it can be made smaller
_GIT_S = 15.0
_FILES = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
_TREE = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", "HEAD"]
_STATUS = ["status", "--porcelain=v1", "-z", "--ignored=matching", "--untracked-files=normal", "--ignore-submodules=dirty"]


def answer(root: Root, message: Message, settings: Settings, program: bytes) -> Message:
    """Return the listing that a message asks for.

    Raises:
        Refused: no such folder, or no such listing.
    """
    match message["what"]:
        case "folder":
            return _packed(_folder(root, str(message["path"])))
        case "paths":
            listed = _git(_FILES, settings, program)
            return _packed(_walk(root, int(message["max_paths"])) if listed is None else _records(listed))
        case "status":
            start = os.fsencode(_place(settings))
            found = _records(_git(_STATUS, settings, program) or b"")
            return _packed(each[:3] + each[3:].removeprefix(start) for each in found)
        case "secrets":  # in the last commit, wherever in the repository
            is_secret = re.compile(os.fsencode(str(message["expression"]))).match
            return _packed(filter(is_secret, _records(_git(_TREE, settings, program) or b"")))
        case _:
            raise Refused("no such listing")


def _packed(records: Iterable[bytes]) -> Message:
    kept: list[bytes] = []
    room = MAX_BYTES
    is_cut = False
    for record in records:
        room -= len(record) + 1
        if room < 0:
            is_cut = True
            break
        kept.append(record)
    data = zlib.compress(b"\0".join(kept), 1)
    return {"is_cut": is_cut, "data": pack(data)}


def _records(listed: bytes) -> list[bytes]:
    return listed.removesuffix(b"\0").split(b"\0") if listed else []


def _folder(root: Root, path: str) -> Iterator[bytes]:
    """Yield a letter for the kind (d, f, l, o) and the name of each entry, folders first."""
    with root.opened(path, os.O_RDONLY | os.O_DIRECTORY) as (folder, _):
        for name, kind, _ in files.entries(folder, "", 1):
            yield os.fsencode(kind[0] + name)


def _walk(root: Root, max_paths: int) -> Iterator[bytes]:
    with root.opened("", os.O_RDONLY | os.O_DIRECTORY) as (folder, _):
        for number, path in enumerate(walk(folder, "", 10 * max_paths)):
            if number > max_paths:
                return
            yield path.encode("utf-8", "replace")


def _git(arguments: list[str], settings: Settings, program: bytes) -> bytes | None:
    """Return what git prints, None where it is not there, or the folder is not a repository."""
    if not settings.git_dir and not (Path(settings.root) / ".git").exists():
        return None
    try:
        whole, environment = git_command(arguments, settings)
        environment = git_environment(environment, whole[0], arguments, settings)
    except Refused:
        return None
    with tempfile.TemporaryFile() as output:
        command = execute.Command(whole, environment, _GIT_S, settings.root, program, is_read=True)
        ended = execute.run(command, os.dup(output.fileno()), settings)
        if ended["exit"] != 0:
            return None
        output.seek(0)
        return output.read(MAX_BYTES)
