"""The tools of a project that commands may read by themselves: the Python of its environment, Node, Rust, Go, Java, Ruby.

Files of the workspace only say which tools are meant; the caller reads them through the sandbox, and nothing here opens the
workspace.  What is shown is in a known place for tools (`tools.toml`), and holds no credentials; anything else is named with
the setting that shows it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmtui.core.errors import UsageError
from lmtui.paths import kept_dir
from lmtui.plain_files import find_program
from lmtui.sandbox.package_indexes import CERTIFICATES, read_beginning
from lmtui.sandbox.repository import NO_REPOSITORY, Repository
from lmtui.sandbox.supervisor_client import InstanceKind
from lmtui.sandbox.toolchains import TABLE, AddedFolder, check_toolchains, programs

ENVIRONMENTS = (".venv", "venv")
_MOST_LINKS = 8
_ALWAYS_THERE = ("/usr/", "/bin/", "/lib/", "/lib64/", "/nix/store/")
_NOT_FOUND = re.compile(r"([\w.+-]{1,60})['’\"`]?: (?:command not found|not found|No such file or directory)")
_MOST_NAMED = 3
# What tools fetch for the commands after it, by the folder's name.  An npx that is killed leaves a cache that stays broken.
_FETCHED = {"cargo": "CARGO_HOME", "go": "GOMODCACHE", "uv": "UV_CACHE_DIR"}
_BESIDE = {"uvx": ("uv",)}  # programs that start another one
_PACKAGES = "/opt/lmtui/packages"
_IN_IMAGE = ("Python 3.11", "uv", "uvx")  # see `images.py`; Node there is another version than the one in use here
_BUILT_HERE = ("/.pyenv/", "/.rbenv/", "/.rvm/", "/.asdf/installs/python/", "/.asdf/installs/ruby/")
_OF_GIT = {"settings": "your git settings", "common": "the repository of this folder"}
_SHIMS = ("shims", ".volta/bin")  # programs there only work with the user's own settings


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A kind of tool; see `tools.toml`."""

    markers: Sequence[str]
    programs: Sequence[str]
    caches: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    pins: Sequence[str] = ()
    settings: Sequence[str] = ()


_MADE_BY_UV = re.compile(r"^uv\s*=", re.MULTILINE)
_ROWS = tuple(ToolRow(**row) for row in TABLE["tools"])
_UV = next(row for row in _ROWS if "uv" in row.programs)
_OTHER = (*(f"{name}/pyvenv.cfg" for name in ENVIRONMENTS), *(name for row in _ROWS for name in row.pins))
# Files of a workspace that tell which tools it uses.
MARKERS = tuple(dict.fromkeys((*_OTHER, *(name for row in _ROWS for name in row.markers))))


@dataclass(frozen=True, slots=True)
class Shown:
    """A folder or a program that is shown at `target`, and why.

    What is `is_cache` may be written to where the backend can copy it; what is `is_writable` is this project's own, or was
    added as writable.  `is_added`: file tools use it too.  `is_system`: it goes with the system's programs, so an
    image has its own.  `git` says what it is to git: its `settings`, the `common` folder of a repository, or a `remote` one.
    """

    target: str
    source: Path
    why: str
    is_cache: bool = False
    is_writable: bool = False
    is_added: bool = False
    is_system: bool = False
    git: str = ""

    def is_writable_in(self, kind: InstanceKind) -> bool:
        """Tell whether programs of an instance may change it for good."""
        if self.git:
            return kind.writes_git and (self.git == "common" or self.is_writable)
        if self.is_added:
            return self.is_writable and kind in (InstanceKind.MAIN, InstanceKind.GUARD)
        return self.is_writable and kind.runs_programs

    def is_shown_in(self, kind: InstanceKind) -> bool:
        """Tell whether an instance has it: the guard has only what it looks after."""
        if self.git:
            return kind.runs_git or (kind.is_masked and self.git != "remote")
        return kind.is_masked or (self.is_added and kind is InstanceKind.GUARD)


@dataclass(frozen=True, slots=True)
class ProjectTools:
    """What a project gets: what is `shown`, by its target; `path`, folders of programs of the tools; `withheld`, texts on what
    was found and cannot be shown, by its path; `offered`, folders that the user can show, and what each has.

    `system` are programs that are only in the system's own folders.
    `repository` is what git uses outside the workspace.
    """

    shown: dict[str, Shown] = field(default_factory=dict)
    path: dict[str, None] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    withheld: dict[str, str] = field(default_factory=dict)
    offered: dict[str, str] = field(default_factory=dict)
    system: dict[str, None] = field(default_factory=dict)
    repository: Repository = NO_REPOSITORY

    def show(self, source: Path, why: str, target: str = "", **facts: Any) -> None:  # Any: those of `Shown`
        """Show a folder or a program, at its own path unless a `target` is given."""
        target = target or str(source)
        self.shown[target] = Shown(target, source, why, **facts)

    @property
    def without_copies(self) -> dict[str, str]:
        """Return variables for where caches cannot be copied on writing: uv does not run with a cache that is read-only."""
        cache = self.variables.get("UV_CACHE_DIR", _PACKAGES)
        return {} if cache.startswith(_PACKAGES) else {"UV_NO_CACHE": "1"}

    def added(self, kind: InstanceKind, *, is_writable: bool = False) -> list[str]:
        """Return the folders outside the workspace that file operations use, with `is_writable` those it may change."""
        shown = [each for each in self.shown.values() if each.is_added and each.is_shown_in(kind)]
        return [each.target for each in shown if not is_writable or each.is_writable_in(kind)]

    def without_added(self) -> ProjectTools:
        """Return the tools without added folders."""
        return replace(self, shown={target: each for target, each in self.shown.items() if not each.is_added})

    def facts(self) -> tuple[str, ...]:
        """Return what is shown and what is not, one line each for the user."""
        copied, writable = ", copied on writing", ", writable"
        kinds = [(each, copied if each.is_cache else writable if each.is_writable else "") for each in self.shown.values()]
        shown = [f"shown: {each.target} ({each.why}{kind})" for each, kind in kinds]
        return (*shown, *(f"not shown: {each}" for each in self.not_shown))

    @property
    def not_shown(self) -> list[str]:
        """Return what was found and is not shown, and why."""
        offered = [f'{path} ({why}): to show it, set allow = ["Tools({path})"]' for path, why in self.offered.items()]
        return [*offered, *self.withheld.values()]


NO_TOOLS = ProjectTools()


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return an expression for the beginning of a path up to a place."""
    return re.compile("|".join(rf"{re.escape(each)}(?=/|\Z)".replace(r"\*", "[^/]*") for each in patterns))


_PLACES = (*TABLE["versions"], *TABLE["places"])
_PLACE, _SYSTEM_PLACE = _any_of(_PLACES), _any_of(TABLE["system_places"])


class _Finder:
    """Adds to the `tools` that are known."""

    def __init__(
        self, workspace: Path, home: Path | None = None, texts: Mapping[str, str] | None = None, tools: ProjectTools = NO_TOOLS
    ) -> None:
        self.workspace, self.home, self.texts = workspace, (home or Path.home()).resolve(), texts or {}
        self.tools = deepcopy(tools)

    def add_folder(self, folder: Path, why: str) -> bool:
        """Show the place that a path is in, under each name that leads to it; False where it is not shown."""
        names = list(_names(folder, self.workspace))
        places = [place for name in names if (place := self._place(name)) is not None]
        if _is_there(names[-1]):
            return True
        if self._place(names[-1]) is None:
            self.tools.offered[str(_whole_tool(names[-1]))] = why
            return False
        for place in places:
            self.show(place, why)
        return True

    def show(self, place: Path, why: str) -> None:
        """Show a folder, unless it may hold what is nobody's business."""
        if str(place) in self.tools.shown or place.is_relative_to(self.workspace):
            return
        try:
            (source,) = check_toolchains([place], self.workspace)
        except UsageError as error:
            self.tools.withheld[str(place)] = f"{place} ({why}): {error}"
            return
        self.tools.show(source, why, str(place))

    def _place(self, path: Path) -> Path | None:
        """Return the known place that a path is in."""
        if path.is_relative_to(self.home) and (found := _PLACE.match(str(path.relative_to(self.home)))):
            return self.home / found[0]
        found = _SYSTEM_PLACE.match(str(path))
        return Path(found[0]) if found else None

    def add_environment(self, text: str, why: str) -> bool:
        """Show the Python that an environment was made by; the text of its `pyvenv.cfg` is anybody's."""
        found = re.search(r"^home\s*=\s*(/.*?)\s*$", text, re.MULTILINE)
        if found is None or ".." in found[1].split("/") or "\0" in found[1]:
            return False
        home = Path(found[1])
        real = list(_names(home, self.workspace))[-1]
        if _is_there(real):
            version = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", text, re.MULTILINE)
            self.tools.system[f"Python {version[1] if version else ''}".strip()] = None
            return True
        if real.is_relative_to(self.workspace):
            return True
        is_python = any(real.parent.glob("bin/python*")) and any(real.parent.glob("lib/python*"))
        return is_python and self.add_folder(home, why)

    def add_row(self, row: ToolRow, marker: str) -> None:
        """Show the programs and caches of one kind of tool."""
        pins = (self.texts.get(pin, "").strip().lstrip("v") for pin in row.pins)
        wanted = next((pin for pin in pins if pin[:1].isdigit()), "")
        found = {name: program for name in row.programs if (program := self.program(name, wanted)) is not None}
        for name, program in found.items():
            self.add_program(program, name, f"{name}, for {marker}")
        if found:
            self.add_caches(row, marker)
        if any(name in self.tools.system for name in row.programs):
            for place in sorted(each for pattern in row.settings for each in Path("/etc").glob(pattern)):
                self.tools.show(place.resolve(), f"settings of {row.programs[0]}", str(place), is_system=True)

    def add_program(self, program: Path, name: str, why: str) -> None:
        """Show a program: its place, or itself where it is a single file."""
        real = list(_names(program, self.workspace))[-1]
        if _is_there(program) and _is_there(real):
            self.tools.system[name] = None
            return
        if real.is_relative_to(self.workspace):
            return
        place = self._place(real) or self._place(program)
        if place is None and real.is_file() and _is_binary(real):
            self.tools.show(real, why, f"/opt/lmtui/bin/{name}")
            return
        if not self.add_folder(real if self._place(real) else program, why):
            return
        assert place is not None
        folder = place / "bin" if (place / "bin" / name).exists() else program.parent
        self.tools.path[str(folder)] = None
        self.add_environment(read_beginning(place / "pyvenv.cfg"), f"the Python of {name}")

    def program(self, name: str, wanted: str = "") -> Path | None:
        """Return a program: that on PATH, else the newest or the `wanted` one that only a shell's settings put there."""
        found = Path(name) if name.startswith("/") else find_program(name, self.workspace)
        if not wanted and found is not None and not str(found.parent).endswith(_SHIMS):
            return found
        name = Path(name).name
        folders = [folder for each in TABLE["versions"] for folder in self.home.glob(each) if (folder / "bin" / name).is_file()]
        folders = [folder for folder in folders if not wanted or _is_pinned(folder, wanted)]
        return max(folders, key=_version) / "bin" / name if folders else found

    def add_caches(self, row: ToolRow, marker: str) -> None:
        """Show what a tool fetched, and set the variables by which it finds that."""
        for name, value in row.variables.items():
            given = os.environ.get(name, "")
            told = given if given.startswith("/usr/") else value.format(home=self.home)
            if not told.startswith("/") or Path(told).is_dir():
                self.tools.variables[name] = told
        if row is _UV and not (self.home / _UV.caches[0]).is_dir():
            self.tools.variables["UV_NO_CACHE"] = "1"
        for cache in row.caches:
            folder = self.home / cache
            if folder.is_dir() and folder.resolve() == folder:
                self.tools.show(folder, f"packages that were fetched, for {marker}", is_cache=True)


def find_project_tools(workspace: Path, texts: Mapping[str, str], home: Path | None = None) -> ProjectTools:
    """Return the tools that a project uses and that its sandbox may see.  Blocks.

    Args:
        workspace: the project's folder.
        texts: those of `MARKERS` that are in it, with the beginning of each.
        home: the user's home folder.
    """
    finder = _Finder(workspace, home, texts)
    for name in ENVIRONMENTS:
        text = texts.get(f"{name}/pyvenv.cfg")
        if text is not None and finder.add_environment(text, f"the Python of {name}"):
            finder.tools.variables.setdefault("VIRTUAL_ENV", f"{workspace}/{name}")
            if _MADE_BY_UV.search(text):
                finder.add_row(_UV, f"{name}/pyvenv.cfg")
    if "VIRTUAL_ENV" not in finder.tools.variables:
        _add_poetry_environment(finder)
    for row in _ROWS:
        if marker := next((name for name in row.markers if name in texts), ""):
            finder.add_row(row, marker)
    if (packages := kept_dir("packages", workspace)).is_dir():
        _add_packages(finder.tools, packages, [name for name in _FETCHED if (packages / name).exists()])
    return finder.tools


def with_repository(tools: ProjectTools, repository: Repository) -> ProjectTools:
    """Return the tools with the repository that a workspace belongs to, and the user's settings of git."""
    places = dict.fromkeys([Path(repository.config).parent, *repository.rules] if repository.config else [], "settings")
    places |= {repository.common: "common"} if repository.common is not None else {}
    shown = {str(place): Shown(str(place), place, _OF_GIT[git], git=git) for place, git in places.items()}
    withheld = tools.withheld | ({".git": repository.problem} if repository.problem else {})
    return replace(tools, shown=shown | tools.shown, withheld=withheld, repository=repository)


def with_remote(tools: ProjectTools, path: Path, *, is_writable: bool) -> ProjectTools:
    """Return the tools with another repository that git uses."""
    shown = Shown(str(path), path, "a remote repository", is_writable=is_writable, git="remote")
    return replace(tools, shown=tools.shown | {shown.target: shown})


def lacking_in_image(tools: ProjectTools) -> str:
    """Return what a project uses that does not work in lmtui's own image, empty where all does.

    Programs in the home folder are shown in a container too, but those that were built here need this machine's libraries.
    """
    lacking = [name for name in tools.system if name not in _IN_IMAGE]
    lacking += tools.offered.values()
    lacking += [each.why for target, each in tools.shown.items() if any(part in target for part in _BUILT_HERE)]
    return ", ".join(lacking)


def find_missing(output: str, workspace: Path, *, in_image: bool) -> tuple[dict[str, str], list[str]]:
    """Return what is known of programs that a command did not find and that the user's machine has.  Blocks.

    `in_image`: the system's programs are those of a container's image.

    Returns:
        Folders that the user could show, each with the reason; and notes on how commands get the programs.
    """
    offers: dict[str, str] = {}
    notes: list[str] = []
    for name in list(dict.fromkeys(_NOT_FOUND.findall(output)))[:_MOST_NAMED]:
        if (program := _Finder(workspace).program(name)) is None:
            continue
        folder = _whole_tool(list(_names(program, workspace))[-1])
        way = "its folder holds more than tools, so it is not shown"
        if can_show(folder, workspace):
            way = f"the user can show it with the rule Tools({folder})"
        if is_systems := _is_there(folder):
            way = "--sandbox bubblewrap shows it"
        else:
            offers[str(folder)] = f"{name} is at {program}"
        if in_image or not is_systems:
            notes.append(f"{name} is at {program} on this machine, not in the {'image' if in_image else 'sandbox'}; {way}")
    return offers, notes


def can_show(folder: Path, workspace: Path) -> bool:
    """Tell whether the user may show a folder of tools to commands.  Blocks."""
    try:
        return bool(check_toolchains([folder], workspace))
    except UsageError:
        return False


def with_allowed(tools: ProjectTools, folders: Sequence[Path], workspace: Path) -> ProjectTools:
    """Return the tools with folders that the user allowed to show, and the Python of an environment in one.  Blocks."""
    finder = _Finder(workspace, tools=tools)
    for folder in folders:
        finder.tools.show(folder, f"your tools in {folder.name}")
        finder.tools.offered.pop(str(folder), None)
        for settings in (folder / "pyvenv.cfg", *folder.glob("*/pyvenv.cfg")):
            finder.add_environment(read_beginning(settings), f"the Python of {settings.parent.name}")
    return replace(finder.tools, path=dict.fromkeys(programs(folders)) | finder.tools.path)


def with_program(tools: ProjectTools, program: str, workspace: Path, home: Path | None = None) -> ProjectTools:
    """Return the tools with those of a program that the user has allowed to run.  Blocks."""
    finder = _Finder(workspace, home, tools=tools)
    for name in (program, *_BESIDE.get(program, ())):
        path = finder.program(name)
        if path is None or path.is_relative_to(workspace):
            continue
        environment = path.parent.parent
        if settings := read_beginning(environment / "pyvenv.cfg"):
            finder.show(environment, f"the environment of {path.name}")
            finder.add_environment(settings, f"the Python of {path.name}")
        else:
            finder.add_program(path, path.name, f"{path.name}, which was started")
    if program in _UV.programs:
        finder.add_caches(_UV, program)
    return finder.tools


def with_added(tools: ProjectTools, folders: Sequence[AddedFolder]) -> ProjectTools:
    """Return the tools with added folders.

    No tool is shown from a writable one: a command could exchange what is there for a link at any time.
    """
    writable = [folder.path for folder in folders if folder.is_writable]
    tools = tools.without_added()
    paths = {target: (each.source, Path(target)) for target, each in tools.shown.items()}
    inside = [target for target, pair in paths.items() if any(path.is_relative_to(each) for path in pair for each in writable)]
    withheld = {tools.shown.pop(target).target: f"{target}: it is in a folder that commands may change" for target in inside}
    for folder in folders:
        tools.show(folder.path, "added folder", is_writable=folder.is_writable, is_added=True)
    return replace(tools, withheld=tools.withheld | withheld)


def tool_places(home: Path) -> list[Path]:
    """Return the folders in which installers keep tools, as far as their names are fixed."""
    return [Path("/opt"), *(home / re.split(r"/[^/]*\*", pattern)[0] for pattern in _PLACES)]


def fetching(tools: ProjectTools, packages: Path, certificates: Path | None) -> ProjectTools:
    """Return the tools for a command that fetches packages: what it fetches stays for the commands after it.

    Args:
        tools: those of the project.
        packages: the project's own folder of packages.
        certificates: those that this machine trusts, as an image may have others.
    """
    tools = deepcopy(tools)
    tools.variables.update({"CARGO_NET_OFFLINE": "false", "UV_OFFLINE": "0"})
    tools.variables.pop("UV_NO_CACHE", None)
    _add_packages(tools, packages, _FETCHED)
    if certificates is not None:
        target = "/opt/lmtui/certificates.pem"
        tools.show(certificates, "the certificates that this machine trusts", target)
        tools.variables.update(dict.fromkeys((*CERTIFICATES, "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO"), target))
    return tools


def _add_packages(tools: ProjectTools, packages: Path, names: Iterable[str]) -> None:
    tools.show(packages, "packages that were fetched for this project", _PACKAGES, is_writable=True)
    tools.variables.update({_FETCHED[name]: f"{_PACKAGES}/{name}" for name in names})


def _add_poetry_environment(finder: _Finder) -> None:
    """Show the environment that poetry keeps outside the project: its name ends in a hash of the project's path."""
    digest = hashlib.sha256(os.fsencode(finder.workspace)).digest()
    ending = base64.urlsafe_b64encode(digest).decode()[:8]
    for environment in sorted(finder.home.glob(f".cache/pypoetry/virtualenvs/*-{ending}-py*"))[-1:]:
        if finder.add_folder(environment, "poetry's environment of this project"):
            finder.add_environment(read_beginning(environment / "pyvenv.cfg"), "the Python of poetry's environment")
            finder.tools.path[str(environment / "bin")] = None
            finder.tools.variables["VIRTUAL_ENV"] = str(environment)


def _names(path: Path, workspace: Path) -> Iterator[Path]:
    """Yield a path and what its links lead to, one link at a time, as far as the workspace; the last is real."""
    yield path
    for _ in range(_MOST_LINKS):
        if path.is_relative_to(workspace):
            return
        folder = next((each for each in (path, *path.parents) if each.is_symlink()), None)
        if folder is None:
            return
        path = Path(os.path.normpath(folder.parent / folder.readlink() / path.relative_to(folder)))
        yield path
    yield path.resolve()


def _is_pinned(folder: Path, version: str) -> bool:
    names = (part.removeprefix("cpython-").lstrip("v").partition("-")[0] for part in folder.parts[-3:])
    return any(f"{name}.".startswith(f"{version}.") for name in names)


def _version(folder: Path) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", str(folder))]


def _whole_tool(path: Path) -> Path:
    """Return the folder of a tool, for its program or its folder of programs."""
    folder = path.parent if path.is_file() else path
    return folder.parent if folder.name in ("bin", "sbin") else folder


def _is_there(path: Path) -> bool:
    return f"{path}/".startswith(_ALWAYS_THERE)


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def project_path(root: str) -> Iterable[str]:
    """Return the folders of programs in a workspace; on PATH, one that is absent does no harm."""
    return [f"{root}/{name}" for name in (".venv/bin", "venv/bin", "node_modules/.bin")] if ":" not in root else []
