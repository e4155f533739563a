from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lmtui.app.process import (
    ENVIRONMENT_SOCKET,
    READY,
    drop_relative_path_entries,
    environment_at_start,
    receive_environment,
)
from lmtui.sandbox.host_paths import check_workspace


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_other_processes_cannot_read_this_one() -> None:
    program = (
        "import ctypes; from lmtui.app.process import protect_process; "
        "before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0); done = protect_process(); "
        "print(before, done, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1", "True", "0"]


def test_relative_entries_of_path_are_dropped() -> None:
    for path, kept in (
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        (".:/usr/bin", "/usr/bin"),
        (":/usr/bin::", "/usr/bin"),
        ("node_modules/.bin:/usr/bin:../tools:~/bin", "/usr/bin"),
        (".", os.defpath),
        ("", os.defpath),
    ):
        environ = {"PATH": path}
        drop_relative_path_entries(environ)
        assert environ == {"PATH": kept}, path


def test_entries_of_path_below_the_workspace_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work/.venv/bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to("work/.venv/bin")
    path = f"{tmp_path}/work/.venv/bin:/usr/bin:{tmp_path}/work:{tmp_path}/link:{tmp_path}/workshop:.:"
    monkeypatch.setenv("PATH", path)
    for _ in range(2):
        check_workspace(tmp_path / "work")
        assert os.environ["PATH"] == f"/usr/bin:{tmp_path}/workshop"


@pytest.mark.full
@pytest.mark.parametrize("entry", [".", "", "bin", "./bin", "ABSOLUTE"])
def test_programs_of_the_folder_do_not_start(tmp_path: Path, entry: str) -> None:
    entry = str(tmp_path / "work/.venv/bin") if entry == "ABSOLUTE" else entry
    folder = tmp_path / "work" / entry
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("bwrap", "uname", "git", "docker", "rg", "sh", "newuidmap"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n")
        (folder / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{entry}{os.pathsep}{os.environ['PATH']}", "LMTUI_HOME": str(tmp_path / "home")}
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    for command in (["doctor", "--offline"], ["sandbox", "check"]):
        arguments = [sys.executable, "-P", "-m", "lmtui", *command]
        subprocess.run(arguments, cwd=tmp_path / "work", env=environ, capture_output=True, timeout=120, check=False)
    assert not (tmp_path / "ran").exists()


def test_only_what_python_needs_is_there_at_the_start() -> None:
    needed = {"PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": "/x", "HOME": "/h"}
    assert environment_at_start({**needed, "LLM_API_KEY": "k", "HTTP_PROXY": "a:b@c"}) == needed


def test_the_rest_of_the_environment_comes_over_a_socket() -> None:
    here, there = socket.socketpair()
    sent = {"LLM_API_KEY": "k" * 300_000, "NAME": "\u00e4\n\udcff"}

    def send() -> None:
        with here:
            assert here.recv(1) == READY
            here.sendall(json.dumps(sent).encode())

    sender = threading.Thread(target=send)
    sender.start()
    environ = {ENVIRONMENT_SOCKET: str(there.detach())}
    receive_environment(environ)
    sender.join()
    assert environ == sent
