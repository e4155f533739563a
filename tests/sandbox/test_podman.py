from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.sandbox import docker
from lmtui.sandbox.backend import Options
from lmtui.sandbox.docker import PodmanBackend
from tests.sandbox.conftest import LIMITS


@pytest.fixture
def runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # a socket's path is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        yield Path(name)


def test_rootless_containers_keep_the_user_s_ids(
    runtime_folder: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runtime_folder / "podman" / "podman.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        backend = PodmanBackend(workspace)
        assert backend._find_socket() == str(path)
        assert backend._more_host_config() == {"UsernsMode": "keep-id"}
        monkeypatch.setattr(docker, "_ROOT_SOCKET", str(path))
        assert backend._more_host_config() == {}
        owner = workspace.stat()
        assert backend._user(None) == f"{owner.st_uid}:{owner.st_gid}"


@pytest.mark.parametrize(("dropped", "is_right"), [(["CAP_CHOWN", "CAP_KILL"], True), ([], False)])
def test_what_podman_tells_of_its_container_is_compared(workspace: Path, dropped: list[str], is_right: bool) -> None:
    backend = PodmanBackend(workspace, Options(limits=LIMITS))
    told = {
        "ReadonlyRootfs": True, "Privileged": False, "NetworkMode": "none",
        "PidsLimit": LIMITS.processes + 16, "Memory": backend._memory_mb() << 20,
        "AutoRemove": True, "CapDrop": dropped, "SecurityOpt": ["no-new-privileges", "seccomp=/x"],
    }  # fmt: skip
    assert (backend._differences(told, "none") == "") == is_right
    assert "Privileged" in PodmanBackend(workspace)._differences({**told, "Privileged": True, "CapDrop": ["ALL"]}, "none")
