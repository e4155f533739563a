"""Where things are on disk.  Functions only; nothing is created here."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs

WORKSPACE_FOLDER = ".lmagent"
PROTECTED_NAMES = (".git", WORKSPACE_FOLDER)
MOUNT_POINT = "/workspace"  # another name of the workspace in every instance of the sandbox with mounts
STORE_INSIDE = "/checkpoints"
OVERLAY_INSIDE = "/overlay"
PROXY_INSIDE = "/run/lmtui"
SCRATCH = ("/tmp", "/dev/shm")  # noqa: S108  (private file systems of an instance, not the host's)
HOME_INSIDE = f"{SCRATCH[0]}/home"
# Where an instance has something of its own: a workspace there is mounted at `MOUNT_POINT` instead.
_RESERVED = tuple(map(Path, (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/proc", "/sys", "/dev", "/nix/store", "/opt/lmtui",
    MOUNT_POINT, STORE_INSIDE, OVERLAY_INSIDE, PROXY_INSIDE, HOME_INSIDE,
)))  # fmt: skip
_FREE = tuple(map(Path, ("/usr/local/src", "/usr/src", SCRATCH[1])))


def config_dir() -> Path:
    """Return the user's folder for settings (`LMTUI_HOME` overrules)."""
    return _user_dir("config", platformdirs.user_config_dir)


def state_dir() -> Path:
    """Return the user's folder for logs and choices that lmtui remembers."""
    return _user_dir("state", platformdirs.user_state_dir)


def workspace_dir(workspace: Path) -> Path:
    """Return the folder inside a workspace that lmtui keeps its state in."""
    return workspace / WORKSPACE_FOLDER


def sessions_dir(workspace: Path) -> Path:
    """Return the folder of a workspace's session logs."""
    return workspace_dir(workspace) / "sessions"


def inbox_dir(workspace: Path) -> Path:
    """Return the folder in which other programs leave tasks for a workspace."""
    return workspace_dir(workspace) / "inbox"


def workspace_state_dir(workspace: Path) -> Path:
    """Return the folder of what lmtui itself keeps of a workspace, at user level: no workspace brings any of it."""
    return kept_dir("workspaces", workspace)


def patches_dir(workspace: Path) -> Path:
    """Return the folder of patches with what was not kept of overlays."""
    return workspace_state_dir(workspace) / "patches"


def batches_dir(workspace: Path) -> Path:
    """Return the folder of batches."""
    return workspace_state_dir(workspace) / "batches"


def kept_dir(kind: str, workspace: Path) -> Path:
    """Return the folder at user level of what is kept of a workspace, by its kind such as `checkpoints` or `packages`."""
    return state_dir() / kind / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]


def themes_dir() -> Path:
    """Return the folder of the themes that ship."""
    return _shipped("themes")


def theme_files() -> dict[str, Path]:
    """Return the theme files by name; the user's own come after and win over those that ship.  Reads two folders."""
    return {file.stem: file for folder in (themes_dir(), config_dir() / "themes") for file in sorted(folder.glob("*.toml"))}


def docs_dir() -> Path:
    """Return the folder of the pages that ship."""
    return _shipped("docs")


def _shipped(name: str) -> Path:
    """Return a folder that ships: inside the wheel, or at the top of a checkout."""
    installed = Path(__file__).parent / name
    return installed if installed.is_dir() else Path(__file__).parents[1] / name


def _user_dir(part: str, default: Callable[..., str]) -> Path:
    home = os.environ.get("LMTUI_HOME")
    if home:
        return Path(home).expanduser() / part
    return Path(default("lmtui", appauthor=False))


def install_hint(extra: str) -> str:
    """Say how an extra is added to this installation: by the program that made it, from where it was made.  Blocks.

    Installers note the place in `direct_url.json` (https://packaging.python.org/specifications/direct-url).
    """
    way = (
        "uv tool install" if "/uv/tools/" in sys.prefix else "pipx install --force" if "/pipx/" in sys.prefix else "pip install"
    )
    noted = next(Path(__file__).parents[1].glob("lmtui-*.dist-info/direct_url.json"), None)
    found = json.loads(noted.read_text(encoding="utf-8")) if noted else {}
    place = f" @ {'git+' if 'vcs_info' in found else ''}{found['url']}" if found.get("url") else ""
    quoted = f"lmtui[{extra}]{place}".replace("'", "'\\''")
    return f"Install it with `{way} '{quoted}'`."


def path_inside(workspace: Path) -> str:
    """Return where an instance with mounts has the workspace: at its own path, so that scripts and links with it work."""
    is_free = any(base in workspace.parents for base in _FREE)
    is_taken = any(base == workspace or base in workspace.parents or workspace in base.parents for base in _RESERVED)
    return str(workspace) if is_free or not is_taken else MOUNT_POINT


# The variables of settings that are secret (a test compares them), and those of LM Studio and of model hubs.
_KEYS = frozenset({"LLM_API_KEY", "LMTUI_WEB_SEARCH_KEY", "OPENAI_API_KEY", "LM_API_TOKEN", "HF_TOKEN"})


def without_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without lmtui's own keys, for programs on this machine: the user's others can read theirs."""
    return {name: value for name, value in environ.items() if name not in _KEYS}
