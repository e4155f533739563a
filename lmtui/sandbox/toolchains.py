"""Folders of the user's own tools (pyenv, cargo, nvm …) that commands may read: which can be shown, and which never."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmtui.core.errors import UsageError

_SECRET_NAMES = frozenset((
    ".ssh", ".aws", ".gnupg", ".netrc", ".docker", ".kube", ".azure", ".config", ".password-store", ".mozilla", ".thunderbird",
    ".git-credentials", ".pypirc", ".vault-token", ".terraform.d", ".oci", ".bash_history", ".zsh_history",
))  # fmt: skip
# Files inside tool folders that hold tokens.
_SECRET_FILES = (
    "credentials", "credentials.toml", ".npmrc", ".credentials", "config/gh/hosts.yml", "gh/hosts.yml", "hosts.yml", "token",
    "auth.json", ".condarc",
)  # fmt: skip
_SYSTEM = tuple(map(Path, ("/etc", "/root", "/proc", "/sys", "/dev", "/run", "/var", "/boot", "/tmp")))  # noqa: S108  (refused)
_HINT = "Name a folder that holds tools only, such as ~/.pyenv/versions/3.12.4 or ~/.rustup/toolchains."


def check_toolchains(folders: Sequence[Path], workspace: Path) -> tuple[Path, ...]:
    """Return the resolved folders, each once.  Blocks.

    Raises:
        UsageError: one does not exist, holds credentials, or is a home folder, a system folder or above one.
    """
    checked: list[Path] = []
    for folder in folders:
        path = _checked(folder, workspace)
        if path not in checked:
            checked.append(path)
    return tuple(checked)


def programs(folders: Sequence[Path]) -> list[str]:
    """Return the folders of programs in toolchain folders, for PATH."""
    return [str(folder / name) for folder in folders for name in ("bin", "shims") if (folder / name).is_dir()]


def _checked(folder: Path, workspace: Path) -> Path:
    try:
        path = folder.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"the toolchain folder {folder} does not exist", _HINT) from error
    if not path.is_dir():
        raise UsageError(f"the toolchain {path} is not a folder", _HINT)
    home = Path.home().resolve()
    if path == home or path in home.parents:
        raise UsageError(f"the toolchain folder cannot be the home folder or a folder above it ({path})", _HINT)
    if path in workspace.parents or path.is_relative_to(workspace):
        raise UsageError(f"the toolchain folder {path} cannot be in the workspace or above it", _HINT)
    if any(path == base or base in path.parents for base in _SYSTEM) and not path.is_relative_to(home):
        raise UsageError(f"the toolchain folder cannot be in {path.parts[0]}{path.parts[1]}: it is the system's", _HINT)
    if ":" in str(path) or not str(path).isprintable():
        raise UsageError(f"the toolchain folder {str(path)!r} has a character in its name that PATH cannot hold", _HINT)
    _refuse_secrets(path)
    return path


def _refuse_secrets(path: Path) -> None:
    named = next((part for part in path.parts if part in _SECRET_NAMES), "")
    held = next((name for name in (*_SECRET_NAMES, *_SECRET_FILES) if (path / name).exists() or (path / name).is_symlink()), "")
    if named or held:
        raise UsageError(f"the toolchain folder {path} holds credentials ({named or held})", _HINT)
