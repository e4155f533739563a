"""An image of a project's own, built from its `devcontainer.json` or `Dockerfile` when the user says so.

The description comes from the workspace, so it is only read here; `lmtui sandbox image --project` shows it and asks before it
builds.  Sessions use the image by its name, whatever the files say by then.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtui.core.errors import SandboxUnavailable, UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.sandbox.docker_engine import connect, find_socket
from lmtui.sandbox.host_paths import LINK_INSIDE

if TYPE_CHECKING:
    from docker import DockerClient

DEVCONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json")
DOCKERFILES = ("Dockerfile", "Containerfile")
DESCRIPTIONS = (*DEVCONTAINERS, *DOCKERFILES, ".devcontainer/Dockerfile")
_COMPARED_CHARS = 32_768
_LABEL = "lmtui.source"
_BUILD_S = 3600
_BUILD_HINT = "Fix the Dockerfile, or look at the network."
_NOT_DONE = (
    "features",
    "postCreateCommand",
    "onCreateCommand",
    "updateContentCommand",
    "postStartCommand",
    "runArgs",
    "mounts",
)
# What the supervisor and the tools need, where an image lacks it.
_FINISH = f"""
USER root
RUN command -v python3 >/dev/null && command -v bash >/dev/null && command -v git >/dev/null || \\
    {{ command -v apt-get >/dev/null && apt-get update && apt-get install -y --no-install-recommends python3 bash git \\
       && rm -rf /var/lib/apt/lists/*; }} || apk add --no-cache python3 bash git || dnf install -y python3 bash git
RUN [ -e /workspace ] || [ -L /workspace ] || ln -s {LINK_INSIDE}/workspace /workspace
"""


@dataclass(frozen=True, slots=True)
class ImageSource:
    """How a project describes its image.

    `base` is an image to start from, or else `dockerfile` is the path of a Dockerfile in the workspace and `context` the folder
    that is sent along; `ignored` are keys of a `devcontainer.json` that lmtui does not act on.
    """

    file: str
    base: str = ""
    dockerfile: str = ""
    context: str = ""
    target: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()


def find_source(texts: Mapping[str, str]) -> ImageSource | None:
    """Return how a project describes its image, None if it does not.

    Format: https://containers.dev/implementors/json_reference.

    Args:
        texts: those of `DESCRIPTIONS` that the project has.

    Raises:
        UsageError: a `devcontainer.json` cannot be read, or needs what lmtui cannot build.
    """
    for name in DEVCONTAINERS:
        if name in texts:
            return _from_devcontainer(name, texts[name])
    return next((ImageSource(name, dockerfile=name) for name in DOCKERFILES if name in texts), None)


def _from_devcontainer(name: str, text: str) -> ImageSource:
    try:
        found = json.loads(_without_comments(text))
    except ValueError as error:
        raise UsageError(
            f"{name} is not valid JSON: {error}", "Fix the file, or set the image yourself: image = NAME."
        ) from error
    if not isinstance(found, dict):
        raise UsageError(f"{name} is not an object", "Fix the file, or set the image yourself: image = NAME.")
    ignored = tuple(key for key in _NOT_DONE if key in found)
    folder = posixpath.dirname(name)
    build: dict[str, Any] = found["build"] if isinstance(found.get("build"), dict) else {}
    dockerfile = build.get("dockerfile") or found.get("dockerFile")
    if isinstance(dockerfile, str):
        context = str(build.get("context") or found.get("context") or ".")
        arguments = build.get("args") if isinstance(build.get("args"), dict) else {}
        return ImageSource(
            name,
            dockerfile=_inside(folder, dockerfile, name),
            context=_inside(folder, context, name),
            target=str(build.get("target") or ""),
            arguments=tuple((str(key), str(value)) for key, value in (arguments or {}).items()),
            ignored=ignored,
        )
    if isinstance(found.get("image"), str) and re.fullmatch(r"[\w./:@-]+", found["image"], re.ASCII):
        return ImageSource(name, base=found["image"], ignored=ignored)
    what = "uses Docker Compose" if "dockerComposeFile" in found else 'names neither "image" nor "build.dockerfile"'
    raise UsageError(f"{name} {what}", "Build the image yourself and set image = NAME.")


def _inside(folder: str, path: str, name: str) -> str:
    joined = posixpath.normpath(posixpath.join(folder, path))
    if joined.startswith(("/", "../")) or joined == "..":
        raise UsageError(
            f"{name} names {sanitize_line(path)}, which is outside the project", "Set the image yourself: image = NAME."
        )
    return "" if joined == "." else joined


def _without_comments(text: str) -> str:
    """Return JSON without the comments and trailing commas that editors allow in it."""
    text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda found: found[1] or "", text, flags=re.DOTALL)
    return re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda found: found[1] or "", text)


def image_name(workspace: Path) -> str:
    """Return the name of the image of a project."""
    return f"lmtui-project:{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]}"


def digest_of(texts: Mapping[str, str]) -> str:
    """Return what tells whether the description of an image has changed since it was built."""
    found = {name: texts[name][:_COMPARED_CHARS] for name in DESCRIPTIONS if name in texts}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest() if found else ""


def built_from(engine: DockerClient, name: str) -> str | None:
    """Return the digest of the description that an image was built from, None if the image does not exist.  Blocks."""
    found = engine.images.list(name)
    return str(found[0].labels.get(_LABEL, "")) if found else None


def build_project_image(
    workspace: Path, source: ImageSource, digest: str, files: Mapping[str, tuple[bytes, int]], say: Callable[[str], None]
) -> str:
    """Build the image of a project and return its name.  Blocks, for as long as the build takes.

    Args:
        workspace: the project's folder; it is not opened.
        source: how the project describes the image.
        digest: of the description.
        files: what is sent to the engine, by path in the workspace: content and mode.
        say: called with a line for each step.

    Raises:
        SandboxUnavailable: no engine, or the build fails; the text is the last of what it said.
    """
    name = image_name(workspace)
    engine = connect(find_socket(), _BUILD_S)
    try:
        base = source.base
        if not base:
            base = f"{name}-base"
            prefix = f"{source.context}/" if source.context else ""
            sent = {path.removeprefix(prefix): file for path, file in files.items() if path.startswith(prefix)}
            sent[".lmtui.Dockerfile"] = files[source.dockerfile]
            _build(engine, sent, base, source, say)
        finish = f"FROM {base}\n{_FINISH}LABEL {_LABEL}={digest}\n"
        _build(engine, {".lmtui.Dockerfile": (finish.encode(), 0o644)}, name, ImageSource(""), say)
    finally:
        engine.close()
    return name


def _build(
    engine: DockerClient, files: Mapping[str, tuple[bytes, int]], tag: str, source: ImageSource, say: Callable[[str], None]
) -> None:
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for path, (data, mode) in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode & 0o777
            archive.addfile(entry, io.BytesIO(data))
    context.seek(0)
    try:
        steps = engine.api.build(
            fileobj=context,
            custom_context=True,
            dockerfile=".lmtui.Dockerfile",
            tag=tag,
            rm=True,
            forcerm=True,
            decode=True,
            target=source.target or None,
            buildargs=dict(source.arguments),
        )
        for step in steps:
            if "error" in step:
                raise SandboxUnavailable(f"The image cannot be built: {sanitize_line(str(step['error']))}", _BUILD_HINT)
            for line in filter(str.strip, str(step.get("stream", "")).splitlines()):
                say(sanitize_line(line))
    except OSError as error:  # the SDK's errors are these
        raise SandboxUnavailable(f"The image cannot be built: {sanitize_line(str(error))}", _BUILD_HINT) from error
