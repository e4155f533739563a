"""The one way in which git is called in the workspace: chosen subcommands, and no program, hook, filter or prompt of anybody's.

Drivers have names that the repository chooses, so those that exist are switched off.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from .beneath import Refused
from .settings import Settings, read_table

_HERE = Path(__file__).resolve().parent
_ROWS = read_table("git_subcommands")
_FACTS = {name: facts for _, name, *facts in _ROWS}
_READS, _WRITES, _REMOTES, _FORBIDDEN = (
    frozenset(name for kind, name, *_ in _ROWS if kind in kinds.split())
    for kinds in ("reads", "reads writes", "remote", "forbidden")
)
_DRIVERS = (
    r"^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver|diff\..*\.(textconv|command)|"
    r"remote\..*\.(vcs|uploadpack|receivepack)|credential\..*\.helper|http\..*(cookiefile|savecookies))$"
)
_SWITCHED_OFF = {
    ("merge", "driver"): "false", ("diff", "textconv"): "cat", ("diff", "command"): "false", ("http", "savecookies"): "false",
    ("remote", "uploadpack"): "git-upload-pack", ("remote", "receivepack"): "git-receive-pack",
}  # fmt: skip
_TODO_LISTS = ("rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo", "sequencer/todo")
_CONFIG_S = 5.0
_SUBMODULE = "160000 "  # the mode of one in git's index
_MOST_REPOSITORIES = 200
_MAX_GITFILE_BYTES = 4096
_OPTIONS = [piece for (option,) in read_table("git_options") for piece in ("-c", option)]


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
    options = [*_OPTIONS, "-c", f"core.excludesFile={ignored}"]
    locks = [] if settings.git_writes else ["--no-optional-locks"]
    plain = ["--no-ext-diff", "--no-textconv"] if "shows-diffs" in _FACTS[subcommand] else []
    plain += ["--no-textconv"] if subcommand in ("blame", "grep") else []
    if subcommand in ("diff", "status"):  # else git runs there, without these options
        plain += ["--ignore-submodules=dirty"]
    if reach:
        plain += ["--no-recurse-submodules"]
        service = "receive-pack" if subcommand == "push" else "upload-pack"
        there = shlex.join([program, *options, service])  # a local repository's settings name programs, too
        plain += [f"--{service}={there}"] if "file" in reach else []
    if place(settings):
        plain += ["--relative"] if subcommand == "diff" else []
        is_whole = not any(not word.startswith("-") for word in rest)
        rest += ["--", "."] if is_whole and subcommand in ("add", "status") else []
    whole = (program, *options, "--no-pager", *locks, subcommand, *plain, *rest)
    is_free = subcommand in ("check-ignore", "stash")  # they refuse this, or use patterns themselves
    literal = {"GIT_LITERAL_PATHSPECS": "0"} if is_free else {}
    return whole, {**settings.environment, **_environment(settings, reach), **literal}


def in_folder(settings: Settings, folder: str) -> Settings:
    """Return the settings of git calls in a folder below the workspace.  Blocks.

    Raises:
        Refused: it is not a folder, a link leads there, or it is in a repository that is not a submodule.
    """
    top, path = settings.root, os.path.normpath(os.path.join(settings.root, folder))
    if not folder or not settings.has_git:
        return settings
    if os.path.realpath(path) != os.path.join(os.path.realpath(top), folder) or not os.path.isdir(path):
        raise Refused(f"git: {folder} is not a folder, or a link leads there")
    common, inner = settings.git_dir or f"{top}/.git", path
    while inner != top and not os.path.lexists(f"{inner}/.git"):
        inner = os.path.dirname(inner)
    if inner == top:
        return settings.with_values(root=path, workspace=top, git_dir=common, git_top=settings.git_top or top)
    named = ""
    with suppress(OSError), open(f"{inner}/.git", "rb", opener=_open_at_once) as file:
        named = os.fsdecode(file.read(_MAX_GITFILE_BYTES).strip().removeprefix(b"gitdir: "))
    git_dir = os.path.realpath(os.path.join(inner, named))
    if not named or not git_dir.startswith(f"{os.path.realpath(common)}/modules/"):  # those no command can change
        raise Refused(f"git: {folder} is in another repository: open that folder, or run this in a terminal")
    return settings.with_values(root=path, workspace=inner, git_dir=git_dir, git_top=inner)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)  # not one that a pipe or a link replaced


def place(settings: Settings) -> str:
    """Return the workspace's place in its repository with a `/` behind it, empty at the top."""
    workspace = settings.workspace or settings.root
    is_part = settings.git_top not in ("", workspace)
    return f"{os.path.relpath(workspace, settings.git_top)}/" if is_part else ""


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
    for name in (each for each in _FACTS[subcommand] if each.endswith(".gpgsign") and not words & {"-d", "--delete"}):
        value = ("config", "-z", "--type=bool", "--get")
        if (listed(*value, name) or listed(*value, f"users.{name}")) == ["true"]:
            raise Refused(
                f"{name} is set and gpg cannot run in the sandbox: run git {subcommand} in a terminal, "
                f"or do not sign in this repository (git config {name} false)"
            )
    for name in _TODO_LISTS if words & {"--continue", "--skip"} else ():
        with suppress(OSError):
            todo = Path(settings.git_dir or f"{settings.root}/.git", name).read_text(encoding="utf-8", errors="replace")
            if re.search(r"^\s*(?:x|exec)\b", todo, re.MULTILINE):
                raise Refused(f"git {subcommand}: the operation in progress runs commands (exec): continue it in a terminal")
    if place(settings):
        _check_part(environment, program, arguments, settings)
    for name in filters if _changes_files(arguments) else ():
        environment = {**environment, "GIT_LITERAL_PATHSPECS": "0"}
        where = f":(top,attr:filter={name})" if re.fullmatch(r"[\w.-]+", name) else ":(top,attr:filter)"
        if found := listed("ls-files", "-z", "--full-name", where):
            raise Refused(
                f"{found[0]} uses the git filter {name}, which cannot run in the sandbox: run git {subcommand} in a terminal"
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
        raise Refused(f"git commit -a may include {whole}, or stage what is here with git add .")
    staged = _listed(environment, program, settings.root, "diff", "--cached", "--name-only", "-z")
    if other := next((name for name in staged if not name.startswith(place(settings))), ""):
        raise Refused(f"{other} is staged, too, and git commit would include {whole}")


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
    return "checks-out" in _FACTS[subcommand]


def skipped_hooks(environment: dict[str, str], program: str, subcommand: str, settings: Settings) -> list[str]:
    """Return the hooks that the user's git would have run.  Blocks."""
    wanted = [each.removeprefix("hook:") for each in _FACTS[subcommand] if each.startswith("hook:")]
    environment = _of_repository(environment, settings)
    if not wanted or not settings.git_writes:
        return []
    own = _listed(environment, program, settings.root, "config", "-z", "--get", "core.hooksPath")
    users = _listed(environment, program, settings.root, "config", "-z", "--get", "users.core.hooksPath")
    if users and not own:
        return [f"those in {users[0]}"]
    folder = "".join(_listed(environment, program, settings.root, "rev-parse", "--git-path", "hooks")).strip()
    return [name for name in wanted if os.access(os.path.join(settings.root, folder, name), os.X_OK)]


def _repositories(own: dict[str, str], environment: dict[str, str], program: str, settings: Settings) -> list[str]:
    """Return the repository's top and its submodules, recursively, where git would enter them."""
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
    short = tuple(each for each in _FACTS[subcommand] if each.startswith("-"))
    for before, argument in pairwise(arguments):
        if "\0" in argument:
            raise Refused("git: an argument has a NUL character in it")
        if argument in ("--", "--end-of-options") and not before.startswith("-"):  # else it may be a value
            return
        name = argument.split("=", 1)[0]
        is_long = len(name) > 3 and name.startswith("--") and any(option.startswith(name) for option in _FORBIDDEN)
        if is_long or name in _FORBIDDEN or argument.startswith(short):
            raise Refused(f"git {subcommand}: the option {name} is not allowed")
