"""Small text files that other people may have put there: read on the host without following a link in any part of the path."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lmtui.paths import WORKSPACE_FOLDER

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


LINKED = "not read: it is a link, or behind one; put the folder in its place"


class NotPlain(Exception):
    """There is something of that name that is not read; the text says why."""


def read_plain(root: Path, relative: str, max_bytes: int) -> bytes | None:
    """Return up to `max_bytes` of a regular file below a folder, None where there is none.  Blocks.

    Raises:
        NotPlain: it is a link, a pipe, a device, or must not be read.
    """
    above, _, name = relative.rpartition("/")
    try:
        with _opened(root, above) as folder:
            file = os.open(name, _FILE, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NotPlain("it is a link" if error.errno == errno.ELOOP else str(error.strerror)) from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise NotPlain("it is not a regular file")
        with open(file, "rb", closefd=False) as reader:
            return reader.read(max_bytes)
    finally:
        os.close(file)


def plain_states(root: Path, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return when each of some regular files below a folder was changed last (ns), and its size in bytes.  Blocks.

    What is missing, or reached by a link, is left out.
    """
    found: dict[str, tuple[int, int]] = {}
    for folder, inside in itertools.groupby(sorted(paths, key=_folder_of), _folder_of):
        with contextlib.suppress(OSError), _opened(root, folder) as opened:
            for path in inside:
                with contextlib.suppress(OSError):
                    state = os.stat(path.rpartition("/")[2], dir_fd=opened, follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode):
                        found[path] = state.st_mtime_ns, state.st_size
    return found


def is_plain_folder(root: Path, relative: str) -> bool:
    """Tell whether there is a folder below another that no part of the path is a link to.  Blocks."""
    with contextlib.suppress(OSError), _opened(root, relative):
        return True
    return False


def is_linked(root: Path, relative: str) -> bool:
    """Tell whether the path of a folder below another leads through a link: nothing in it is read.  Blocks."""
    parts = relative.split("/")
    found = (plain_stat(root, "/".join(parts[:end])) for end in range(1, len(parts) + 1))
    return any(each is not None and stat.S_ISLNK(each.st_mode) for each in found)


def list_plain(root: Path, relative: str = "") -> list[tuple[str, str]]:
    """Return the names in a folder, sorted, with what each is: `folder`, `file`, or `other` for links and the like.  Blocks.

    A folder that is missing, or behind a link, has nothing in it.
    """
    with contextlib.suppress(OSError), _opened(root, relative) as folder, os.scandir(folder) as entries:
        return sorted((entry.name, _kind(entry)) for entry in entries)
    return []


def open_plain_folder(root: Path, relative: str = "", *, makes: bool = False) -> int:
    """Open a folder below another without following a link, and return its descriptor, which the caller closes.  Blocks.

    `makes`: it is made where it is missing.

    Raises:
        OSError: it is missing, not a folder, or a part of the path is a link.
    """
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in relative.split("/") if relative else ():
        try:
            if part in ("", ".", ".."):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), part)
            if makes:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def open_own(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open a file below `.lmagent` by its whole path; no part of that from `.lmagent` on may be a link.  Blocks.

    It can be the `opener` of `open`.

    Raises:
        OSError: it is missing, behind a link, not a regular file, or to be written and also has another name.
    """
    with own_folder(Path(path).parent) as folder:
        try:
            file = os.open(Path(path).name, flags & ~os.O_TRUNC | _FILE, 0o600, dir_fd=folder)
        except OSError as error:
            why = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise OSError(error.errno, why, str(path)) from error
    found, writes = os.fstat(file), flags & os.O_ACCMODE != os.O_RDONLY
    if not stat.S_ISREG(found.st_mode) or (writes and found.st_nlink > 1):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file, or a hard link", str(path))
    if flags & os.O_TRUNC:
        os.truncate(file, 0)
    return file


@contextlib.contextmanager
def own_folder(path: Path, *, makes: bool = False) -> Iterator[int]:
    """Hold the descriptor of a folder that is `.lmagent` or below it, by its whole path, as `open_own` does.  Blocks.

    `makes`: it is made where it is missing.

    Raises:
        OSError: it is missing, not a folder, or a part of the path is a link.
    """
    parts = path.parts
    above = parts.index(WORKSPACE_FOLDER) if WORKSPACE_FOLDER in parts else len(parts)
    if makes and above == len(parts):
        path.mkdir(parents=True, exist_ok=True)
    try:
        folder = open_plain_folder(Path(*parts[:above]), "/".join(parts[above:]), makes=makes)
    except OSError as error:
        is_link = any(Path(*parts[:end]).is_symlink() for end in range(above + 1, len(parts) + 1))
        number, why = (errno.ELOOP, "it is behind a link") if is_link else (error.errno, error.strerror)
        raise OSError(number, why, str(path)) from error
    try:
        yield folder
    finally:
        os.close(folder)


def path_outside(workspace: Path) -> str:
    """Return the folders of programs on PATH, without those that are relative or lead into a workspace.  Blocks."""
    folders = (folder for folder in os.environ.get("PATH", "").split(":") if folder.startswith("/"))
    return ":".join(each for each in folders if not Path(each).resolve().is_relative_to(workspace))


def forget_programs(workspace: Path) -> None:
    """Take a workspace's folders from this process's PATH: an agent may write to an active virtual environment.  Blocks."""
    if not Path.home().resolve().is_relative_to(workspace):  # such a folder is no workspace, and has the user's own programs
        os.environ["PATH"] = path_outside(workspace) or os.defpath


def find_program(name: str, workspace: Path) -> Path | None:
    """Return where the user's machine has a program, None where that is in a workspace.  Blocks."""
    found = shutil.which(name, path=path_outside(workspace)) if "/" not in name else None
    return Path(found) if found and not Path(found).resolve().is_relative_to(workspace) else None


_USUAL = ("editor", "nano", "vim", "vi")
_PLACE_AFTER_COLON = frozenset({"hx", "helix", "subl", "zed"})
_WITH_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})


def editor_command(path: Path, line: int, environment: Mapping[str, str]) -> list[str]:
    """Return the command that opens a file at a line (from 1, 0 for none); empty without an editor.

    `VISUAL` comes before `EDITOR`, both may hold options; without them the usual editors are looked for.
    """
    text = environment.get("VISUAL", "").strip() or environment.get("EDITOR", "").strip()
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    if not words:
        found = next((name for name in _USUAL if shutil.which(name)), "")
        words = [found] if found else []
    if not words or line <= 0:
        return [*words, str(path)] if words else []
    name = Path(words[0]).name
    if name in _WITH_GOTO:
        return [*words, "-g", f"{path}:{line}"]
    return [*words, f"{path}:{line}"] if name in _PLACE_AFTER_COLON else [*words, f"+{line}", str(path)]


def plain_stat(root: Path, relative: str) -> os.stat_result | None:
    """Return what is known of an entry below a folder (a link itself, not what it leads to), None where there is none.

    Blocks; no part of the path may be a link.
    """
    above, _, name = relative.rpartition("/")
    with contextlib.suppress(OSError), _opened(root, above) as folder:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None


@contextlib.contextmanager
def _opened(root: Path, relative: str = "") -> Iterator[int]:
    folder = open_plain_folder(root, relative)
    try:
        yield folder
    finally:
        os.close(folder)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]
