"""A git folder outside the workspace, and the user's own git settings, as far as git in the sandbox follows both.

A linked worktree, a submodule and a folder of a repository only say where their git folder is: it is used if it says the same.
Of the user's settings a list of values passes, never a program.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from lmtui.core.errors import SandboxError
from lmtui.paths import path_inside, state_dir
from lmtui.plain_files import NotPlain, find_program, is_plain_folder, plain_stat, read_plain
from lmtui.sandbox.guest.settings import read_table

_GUEST = Path(__file__).parent / "guest"
_MAX_BYTES = 65_536
_GIT_S = 10.0
_PLACES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_VALUES, _NAMED = ({name for kind, name in read_table("git_settings") if kind == each} for each in ("value", "named"))
_FILTER = re.compile(r"(filter\..+)\.(?:clean|smudge|process|required)", re.DOTALL)
_CONDITION = re.compile(r"includeif\.gitdir(/i)?:(.+)\.path", re.DOTALL)
_RULES = (".gitignore", ".gitattributes")
_WAY_OUT = "use git in a terminal, or open the folder that has the repository"
_WAY_OUT_HINT = "Run this git command in a terminal."


@dataclass(frozen=True, slots=True)
class Repository:
    """What git in the sandbox uses next to what is in the workspace.

    `config` is a file with the settings.  `git_dir` is outside the workspace, `common` the folder that it shares with other
    worktrees, `top` where the files begin; they are None if the workspace has its own git folder, or there is none.  `rules`
    are files above the workspace that say what git ignores and how.  `problem` says why a git folder is not used.
    """

    config: str = ""
    git_dir: Path | None = None
    common: Path | None = None
    top: Path | None = None
    rules: tuple[Path, ...] = ()
    problem: str = ""

    def stamp(self) -> str:
        """Return a text that changes when the repository does.  Blocks."""
        names = [*((self.git_dir / name) for name in ("index", "HEAD", "logs/HEAD") if self.git_dir)]
        names += [*((self.common / name) for name in ("packed-refs", "refs", "refs/heads") if self.common)]
        return str([(each.stat().st_ino, each.stat().st_ctime_ns) for each in names if each.exists()])


NO_REPOSITORY = Repository()


class _NotUsed(Exception):
    """A git folder is not used; the text says why."""


def find_repository(workspace: Path, home: Path | None = None) -> Repository:
    """Return the repository that a workspace belongs to where its git folder is outside, and the user's settings.  Blocks."""
    home = (home or Path.home()).resolve()
    found = Repository()
    try:
        if not is_plain_folder(workspace, ".git"):
            found = _around(workspace, home)
    except (_NotUsed, NotPlain, OSError, ValueError, subprocess.SubprocessError) as error:
        found = Repository(problem=f"its git folder is not used: {error}; {_WAY_OUT}")
    return replace(found, config=str(_kept_settings(workspace, found, home) / "config"))


def local_remote(url: str, workspace: Path) -> Path | None:
    """Return the folder of another repository on this machine, None for any other address.  Blocks.

    Raises:
        SandboxError: it is not a repository that git may be shown.
    """
    if not url.startswith(("/", "./", "../", "file:///")):
        return None
    path = Path(os.path.normpath(workspace / url.removeprefix("file://")))
    is_outside = not path.is_relative_to(workspace) and path_inside(path) == str(path) and path.resolve() == path
    if not is_outside or not (_is_git_folder(path) or _is_git_folder(path / ".git")):
        raise SandboxError(f"{path} is not a git repository that the sandbox can show", _WAY_OUT_HINT)
    return path


def _around(workspace: Path, home: Path) -> Repository:
    """Return the repository of a workspace without a git folder: named by its file `.git`, or that of a folder above it."""
    for top in (workspace, *workspace.parents):
        if top in (home, *home.parents):  # a repository of the whole home folder is not this project's
            break
        if plain_stat(top, ".git") is None:
            continue
        is_folder = is_plain_folder(top, ".git")
        git_dir, common = (top / ".git", top / ".git") if is_folder else _linked(top)
        if is_folder and not _is_git_folder(common):
            continue
        _check(workspace, home, git_dir, common)
        above = workspace.parents[: len(workspace.parts) - len(top.parts)]
        rules = [(each, name) for each in above for name in _RULES if read_plain(each, name, 1) is not None]
        return Repository("", git_dir, common, top, tuple(each / name for each, name in rules))
    return Repository()


def _linked(top: Path) -> tuple[Path, Path]:
    """Return the git folder that a file `.git` names, and the one that it shares, if they name the file's folder in turn."""
    named = _text(top, ".git")
    if not named.startswith("gitdir: "):
        raise _NotUsed(f"{top}/.git names no git folder")
    git_dir = Path(os.path.normpath(top / named.removeprefix("gitdir: ")))
    back, common = _text(git_dir, "gitdir"), git_dir
    if back:
        common = Path(os.path.normpath(git_dir / _text(git_dir, "commondir")))
        is_ours = os.path.normpath(git_dir / back) == f"{top}/.git" and git_dir.parent == common / "worktrees"
    else:
        tree = _git("config", "--file", str(git_dir / "config"), "--get", "core.worktree").strip("\n\0")
        is_ours = _text(git_dir, "config") != "" and tree != "" and os.path.normpath(git_dir / tree) == str(top)
    if not is_ours:
        raise _NotUsed(f"{git_dir}, which {top}/.git names, does not name {top}")
    return git_dir, common


def _check(workspace: Path, home: Path, git_dir: Path, common: Path) -> None:
    """Refuse a git folder that is none, is not the user's, or cannot be shown."""
    owners = (os.geteuid(), workspace.stat().st_uid)
    if common.resolve() != common or git_dir.resolve() != git_dir:
        raise _NotUsed(f"the path {git_dir} leads through a link")
    if not _is_git_folder(common):
        raise _NotUsed(f"{common} is not a git folder")
    if any(each.stat().st_uid not in owners for each in (common, git_dir)):
        raise _NotUsed(f"{common} belongs to another user")
    if common.is_relative_to(workspace) or common in (home, *home.parents):
        raise _NotUsed(f"{common} cannot be protected")
    if path_inside(workspace) != str(workspace) or path_inside(common) != str(common):
        raise _NotUsed(f"{common} cannot be shown at its own path")


def _is_git_folder(folder: Path) -> bool:
    return _text(folder, "HEAD") != "" and is_plain_folder(folder, "objects") and is_plain_folder(folder, "refs")


def _text(folder: Path, name: str) -> str:
    return (read_plain(folder, name, _MAX_BYTES) or b"").decode("utf-8", "surrogateescape").rstrip("\n")


def _git(*arguments: str) -> str:
    """Run the system's git on named files, in no repository; return what it prints, empty where it fails."""
    program = find_program("git", Path("/nonexistent"))
    if program is None:
        return ""
    environment = {name: os.environ[name] for name in _PLACES if name in os.environ}
    done = subprocess.run(
        [program, *arguments], cwd="/", env={**environment, "GIT_DIR": "/dev/null"}, capture_output=True, timeout=_GIT_S,
        check=False,
    )  # fmt: skip
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""


def _kept_settings(workspace: Path, found: Repository, home: Path) -> Path:
    """Write the user's values to a folder of lmtui's own, and return it."""
    values = _values(str(found.git_dir or workspace / ".git"), home)
    files = {name: _own_file(values.get(f"core.{name}sfile", ""), name, home) for name in ("exclude", "attribute")}
    lines = [_GUEST.joinpath("gitconfig").read_text(encoding="utf-8")]
    for name, value in values.items():
        if name.startswith("filter."):
            lines.append(_line(f"{name}.required", "false"))  # that it exists: where git writes, what needs it is refused
        elif name in _NAMED | _VALUES:
            lines.append(_line(f"users.{name}" if name in _NAMED else name, value))
    ignored = _GUEST.joinpath("gitignore").read_text(encoding="utf-8") + files["exclude"]
    digest = hashlib.sha256("\0".join((*lines, ignored, files["attribute"])).encode("utf-8", "surrogateescape")).hexdigest()
    folder = state_dir() / "git" / digest[:24]
    lines += [_line(f"core.{name}File", str(folder / name)) for name in ("excludes", "attributes")]
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    for name, text in (("excludes", ignored), ("attributes", files["attribute"]), ("config", "".join(lines))):
        (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    return folder


def _values(git_dir: str, home: Path) -> dict[str, str]:
    """Return the settings of the user and the system, those for folders like this one included (git-config(1), includeIf)."""
    found: dict[str, str] = {}
    own = os.environ.get("GIT_CONFIG_GLOBAL")  # else git reads both of these, and lists one
    files = [_own_folder(home) / "config", home / ".gitconfig"] if own is None else [Path(own)]
    scopes = [("--system",), *(("--file", str(each)) for each in files)]
    listed = [_git("config", *scope, "--includes", "-z", "--list") for scope in scopes]
    for scope in listed:
        for entry in scope.split("\0"):
            name, _, value = entry.partition("\n")
            condition = _CONDITION.fullmatch(name)
            if condition and _is_met(condition[2], git_dir, home, ignores_case=condition[1] is not None):
                listed.append(_git("config", "--file", str(_path(value, home)), "--includes", "-z", "--list"))
            filtered = _FILTER.fullmatch(name)
            found[filtered[1] if filtered else name] = value if "\n" in entry else "true"
    return found


def _is_met(pattern: str, git_dir: str, home: Path, *, ignores_case: bool) -> bool:
    whole = str(_path(pattern, home)) + ("/" if pattern.endswith("/") else "")
    whole = whole if whole.startswith("/") else f"*/{whole}"
    whole, path = (whole.lower(), git_dir.lower()) if ignores_case else (whole, git_dir)
    return fnmatchcase(path, f"{whole}*" if whole.endswith("/") else whole)


def _path(text: str, home: Path) -> Path:
    """Return a path as settings write it; one that is relative belongs to the file that names it, taken to be the usual one."""
    return home / text.removeprefix("~/").removeprefix("./") if text.startswith(("~/", "./")) else Path(text)


def _own_folder(home: Path) -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config", "git")


def _own_file(named: str, kind: str, home: Path) -> str:
    """Return the text of the user's file of ignored files or of attributes."""
    usual = _own_folder(home) / ("ignore" if kind == "exclude" else "attributes")
    try:
        with (_path(named, home) if named else usual).open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _line(name: str, value: str) -> str:
    """Return a setting as a file has it (git-config(1), syntax)."""
    section, _, rest = name.partition(".")
    inner, _, key = rest.rpartition(".")
    quoted = [re.sub(r'(["\\])', r"\\\1", each).replace("\n", "\\n") for each in (inner, value)]
    return f'[{section}{f" {chr(34)}{quoted[0]}{chr(34)}" if inner else ""}]\n\t{key} = "{quoted[1]}"\n'
