"""Folders outside the workspace that commands may use: the user's tools (pyenv, cargo, nvm …) and added folders."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import UsageError
from lmtui.paths import PROTECTED_NAMES, config_dir, state_dir

TABLE = tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))
_REFUSED = TABLE["refused"]
_SECRET_NAMES, _SECRET_FILES = frozenset(_REFUSED["names"]), _REFUSED["files"]
_SYSTEM, _NEVER_ADDED, _SHARED = ([Path(each) for each in _REFUSED[name]] for name in ("system", "never_added", "shared"))
_WRITABLE = ":rw"
_ADDED_HINT = "Name a project or data folder: --add-dir ../library (read-only) or --add-dir ../library:rw (writable)."
_READ_ONLY_HINT = "Add it read-only: --add-dir DIR, without :rw."
_HINT = "Name a folder that holds tools only, such as ~/.pyenv/versions/3.12.4 or ~/.rustup/toolchains."


@dataclass(frozen=True, slots=True)
class AddedFolder:
    """A folder outside the workspace that file tools and commands may use, at its own path."""

    path: Path
    is_writable: bool = False


def check_added(folders: Sequence[str], workspace: Path, tools: Iterable[Path] = ()) -> tuple[AddedFolder, ...]:
    """Return the folders outside the workspace that file tools and commands may use, resolved, each once.  Blocks.

    Args:
        folders: whole paths; one that ends in `:rw` is writable.
        workspace: the workspace, which no added folder may contain or be in.
        tools: folders of tools, which no writable folder may contain or be in.

    Raises:
        UsageError: one does not exist, or is the home folder, a system folder, above the workspace, or holds credentials; or
            one is writable and holds what programs outside the sandbox run.
    """
    found: dict[Path, bool] = {}
    names: dict[Path, Path] = {}
    for text in folders:
        name = text.removesuffix(_WRITABLE)
        path = _added(name, workspace)
        found[path] = found.get(path, False) or text.endswith(_WRITABLE)
        names |= {path: path, Path(os.path.normpath(Path(name).expanduser())): path}
    for path in (path for path, is_writable in found.items() if is_writable):
        others = [name for name, leads_to in names.items() if leads_to != path]  # a link in it could be exchanged
        if problem := _why_not_writable(path, others, tools):
            raise UsageError(f"{path} cannot be added as writable: {problem}.", _READ_ONLY_HINT)
    return tuple(AddedFolder(path, is_writable) for path, is_writable in found.items())


def _why_not_writable(path: Path, others: Iterable[Path], tools: Iterable[Path]) -> str:
    """Return what in a folder, or around it, programs outside the sandbox would follow or run; empty if nothing is known."""
    on_path = [Path(each).resolve() for each in os.environ.get("PATH", "").split(os.pathsep) if each.startswith("/")]
    own = [Path(each).resolve() for each in (*sys.path, sys.prefix, sys.base_prefix) if each]
    if any(part.startswith(".") for part in path.parts):
        return "hidden folders hold what other programs run"
    if not os.access(path, os.W_OK | os.X_OK):
        return "you may not write there"
    if near := next((each for each in others if _overlap(path, each)), None):
        return f"it overlaps with the added folder {near}"
    if near := next((each for each in (*on_path, *tools) if _overlap(path, each)), None):
        return f"programs are run from {near}"
    if any(each.is_relative_to(path) for each in own):
        return "lmtui runs from there"
    if any(all(os.path.lexists(each / name) for name in ("HEAD", "objects", "refs")) for each in (path, *path.parents)):
        return "it belongs to a bare git repository"
    return ""


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _added(text: str, workspace: Path) -> Path:
    named = Path(text).expanduser()
    if not named.is_absolute():
        raise UsageError(f"{text} cannot be added: it is not a whole path.", _ADDED_HINT)
    path = _resolved(named, workspace, "added", _ADDED_HINT, (*_SECRET_NAMES, *PROTECTED_NAMES))
    if path in (*_SHARED, *_SYSTEM) or any(path.is_relative_to(base) for base in _NEVER_ADDED):
        raise UsageError(f"{path} cannot be added: it belongs to the system.", _ADDED_HINT)
    return path


def _resolved(folder: Path, workspace: Path, what: str, hint: str, secret: Collection[str]) -> Path:
    """Return the real path of a folder that may be shown to commands.

    Raises:
        UsageError: it may not.
    """
    try:
        path = folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{folder} cannot be {what}: it does not exist.", hint) from error
    home, own = Path.home().resolve(), (config_dir().resolve(), state_dir().resolve())
    why = ""
    if not path.is_dir() or ":" in str(path) or not str(path).isprintable():
        why = "it is not a folder, or its name cannot be mounted or be on PATH"
    elif path == home or path in home.parents:
        why = "it is your home folder, or contains it"
    elif path in workspace.parents or path.is_relative_to(workspace):
        why = "it contains the workspace or is part of it"
    elif any(path in (each, *each.parents) or path.is_relative_to(each) for each in own):
        why = "lmtui keeps its own files there"
    elif private := next((part for part in path.parts if part in secret), ""):
        why = f"{private} may hold credentials"
    if why:
        raise UsageError(f"{str(path)!r} cannot be {what}: {why}.", hint)
    return path


def check_toolchains(folders: Sequence[Path], workspace: Path) -> tuple[Path, ...]:
    """Return the resolved folders, each once.  Blocks.

    Raises:
        UsageError: one does not exist, holds credentials, or is a home folder, a system folder or above one.
    """
    return tuple(dict.fromkeys(_checked(folder, workspace) for folder in folders))


def programs(folders: Sequence[Path]) -> list[str]:
    """Return the folders of programs in toolchain folders, for PATH."""
    return [str(folder / name) for folder in folders for name in ("bin", "shims") if (folder / name).is_dir()]


def _checked(folder: Path, workspace: Path) -> Path:
    path, home = _resolved(folder.expanduser(), workspace, "shown", _HINT, _SECRET_NAMES), Path.home().resolve()
    held = next((name for name in (*_SECRET_NAMES, *_SECRET_FILES) if os.path.lexists(path / name)), "")
    why = f"it holds credentials ({held})" if held else ""
    if path in (home / ".local", home / ".cache"):
        why = "it holds more than tools"
    elif not path.is_relative_to(home) and any(path.is_relative_to(base) for base in _SYSTEM):
        why = "it belongs to the system"
    if why:
        raise UsageError(f"{path} cannot be shown: {why}.", _HINT)
    return path
