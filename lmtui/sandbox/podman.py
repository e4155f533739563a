"""Lanes as Podman containers: Docker's, through the socket that Podman offers in the same language.

Rootless Podman maps the user onto itself (`keep-id`), so that files keep their owner.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from lmtui.core.errors import SandboxUnavailable
from lmtui.sandbox.docker import DockerBackend

_ROOT_SOCKET = "/run/podman/podman.sock"


class PodmanBackend(DockerBackend):
    """One container for each lane of a workspace."""

    name = "podman"

    def _find_socket(self) -> str:
        return find_podman_socket()

    def _more_host_config(self) -> dict[str, Any]:  # Any: the engine's JSON
        return {"UsernsMode": "keep-id"} if is_rootless(find_podman_socket()) else {}

    def _user(self, engine: object) -> str:
        del engine  # as its own user, whoever runs it
        owner = self._workspace.stat()
        return f"{owner.st_uid}:{owner.st_gid}"

    def _profile(self) -> str:
        """Return the path of the profile: Podman reads it from a file."""
        with tempfile.NamedTemporaryFile("w", prefix="lmtui-seccomp-", suffix=".json", delete=False, encoding="ascii") as file:
            file.write(super()._profile())
        self._files.append(file.name)
        return file.name

    def _differences(self, host_config: dict[str, Any], network_mode: str) -> str:  # Any: the engine's JSON
        """Return what was not taken over; Podman lists dropped capabilities one by one, the self-test sees them from inside."""
        if not host_config.get("CapDrop"):
            return "CapDrop is empty"
        return super()._differences({**host_config, "CapDrop": ["ALL"]}, network_mode)


def find_podman_socket() -> str:
    """Return the path of Podman's socket.

    Raises:
        SandboxUnavailable: there is none.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    for path in (Path(runtime, "podman", "podman.sock"), Path(_ROOT_SOCKET)):
        if path.is_socket():
            return str(path)
    raise SandboxUnavailable("no Podman socket is here", "Start it (systemctl --user start podman.socket), or use bubblewrap.")


def is_rootless(socket_path: str) -> bool:
    """Tell whether a socket belongs to a user's own Podman."""
    return socket_path != _ROOT_SOCKET
