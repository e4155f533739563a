"""What the whole suite shares: a home of its own, and one place that skips what this machine cannot run.

No test meets the settings, sessions and rules of whoever runs it: `LMTUI_HOME` is `home` in a folder of the test's own.

Property tests have no deadline: how long an example takes on a busy machine says nothing of the code.  They draw 12
examples, and 200 where the tests of `make full` run.

Programs that tests start keep their compiled modules, whatever the environment says: without them each start takes four
times as long.
"""

from __future__ import annotations

import asyncio
import compileall
import gc
import logging
import multiprocessing
import os
import re
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings
from hypothesis.internal import charmap
from hypothesis.internal.conjecture import providers

from lmtui.core.errors import SandboxUnavailable
from lmtui.sandbox import backend
from lmtui.sandbox.bubblewrap import find_bubblewrap
from lmtui.sandbox.guest.confinement import OLDEST_ABI, landlock_abi
from lmtui.sandbox.images import DEFAULT_IMAGE, connect, find_socket

settings.register_profile("quick", deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", settings.get_profile("quick"), max_examples=200)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
_NUMBERS = count()
_copied = backend._copied
_GIVES_MEMORY_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "2"}  # what a test with a large text took
_ROOT = Path(__file__).parents[1]
_NEVER_LOADED = re.compile(r"/(?:pip|setuptools|google|opentelemetry|pygments/lexers)/")
_configs: list[pytest.Config] = []
gc.disable()  # modules and tests are loaded first, and stay


def _docker() -> str:
    try:
        engine = connect(find_socket(), 10)
    except SandboxUnavailable as reason:
        return str(reason)
    try:
        return "" if engine.images.list(DEFAULT_IMAGE) else f"there is no image {DEFAULT_IMAGE} (lmtui sandbox image)"
    finally:
        engine.close()


def _bubblewrap() -> str:
    try:
        asyncio.run(find_bubblewrap(Path("/")))
    except SandboxUnavailable as reason:
        return str(reason)
    return ""


def _program(*names: str) -> Callable[[], str]:
    return lambda: "" if any(map(shutil.which, names)) else f"{names[0]} is not installed"


_ONLY_IN_FULL = ("docker", "landlock", "chromium")
_OF_THE_WHOLE_PROGRAM = ("e2e", "killing")
_LONG = {"acp", "app", "e2e", "host", "sandbox", "tui"}  # their tests start programs or an app
_LACKING: dict[str, Callable[[], str]] = {
    "docker": _docker,
    "bubblewrap": _bubblewrap,
    "landlock": lambda: "" if sys.platform == "linux" and landlock_abi() >= OLDEST_ABI else "this kernel has no Landlock",
    "git": _program("git"),
    "tmux": _program("tmux"),
    "node": _program("node"),
    "chromium": _program("chromium", "chromium-browser", "google-chrome"),
    "root": lambda: "" if os.geteuid() == 0 else "only root can do this",
}


@cache
def lacking(name: str) -> str:
    """Return why tests with a marker cannot run here, empty where they can."""
    return _LACKING[name]()


def pytest_configure(config: pytest.Config) -> None:
    """Draw more examples where the tests of `make full` run."""
    is_quick = config.option.markexpr == "not full"
    settings.load_profile("quick" if is_quick else "full")
    if is_quick:  # to look for the constants of all modules takes each worker two seconds
        vars(providers)["_get_local_constants"] = lambda: providers._local_constants
    if getattr(config.option, "numprocesses", None):
        os.environ.update(_GIVES_MEMORY_BACK)
        _compile_once(config)


def _compile_once(config: pytest.Config) -> None:
    """Compile what every worker loads, as each would: in a new checkout that is half of the time of the collection."""
    packages = Path(pytest.__file__).parents[1]
    if not (packages / "openai" / "__pycache__").exists():  # pip would take one core for it, and compile ten times as much
        compileall.compile_dir(packages, quiet=2, workers=2, rx=_NEVER_LOADED)
    compileall.compile_dir(_ROOT / "lmtui", quiet=2, workers=2)
    compileall.compile_dir(_ROOT / "tests", quiet=2, workers=2, rx=re.compile(r"/(?:test_\w+|conftest)\.py$"))
    _configs.append(config)  # for the processes, which are forks
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        _ = pool.submit(_keep_letters)
        list(pool.map(_rewrite, sorted((_ROOT / "tests").rglob("test_*.py")), chunksize=8))


def _keep_letters() -> None:
    """Let hypothesis write down which letters UTF-8 has; to find that out would take each worker a second and 200 MB."""
    charmap.intervals_from_codec("utf-8")


def _rewrite(path: Path) -> None:
    pyc = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, pyc) is None and rewrite.try_makedirs(pyc.parent):
        stat, code = rewrite._rewrite_test(path, _configs[0])
        rewrite._write_pyc(_configs[0].stash[rewrite.assertstate_key], code, stat, pyc)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not load modules of the full suite for the quick one, unless they are asked for by name: a second of each worker."""
    is_quick = config.option.markexpr == "not full" and collection_path.name not in " ".join(config.args)
    is_start = is_quick and collection_path.parent.name in _OF_THE_WHOLE_PROGRAM and collection_path.match("test_*.py")
    return (is_start and "mark.quick" not in collection_path.read_text()) or None


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not among what was loaded, and less often: a twentieth of the time of the tests."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Leave other engines than bubblewrap, and most starts of the program, to `make full`; skip what cannot run here.

    Where `LMTUI_REQUIRE_SANDBOX` is set, only the rights of root may be lacking.
    """
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        is_start = item.path.parent.name in _OF_THE_WHOLE_PROGRAM and "quick" not in marks
        if is_start or not marks.isdisjoint(_ONLY_IN_FULL):
            item.add_marker(pytest.mark.full)
    yield
    needed = ["root"] if os.environ.get("LMTUI_REQUIRE_SANDBOX") == "1" else list(_LACKING)
    for item in items:
        for name in {mark.name for mark in item.iter_markers()}.intersection(needed):
            if why := lacking(name):
                item.add_marker(pytest.mark.skip(reason=f"{name}: {why}"))
    _deal(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _deal(items: list[pytest.Item], workers: int) -> None:
    """Give each worker as many tests, the short ones last, those of a folder together: they load and keep the same."""
    piles: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for is_short in (False, True):
        some = [item for item in items if _LONG.isdisjoint(item.path.parts) is is_short]
        for at, pile in enumerate(piles):
            pile.extend(some[len(some) * at // workers : len(some) * (at + 1) // workers])
    items[:] = [item for pile in piles for item in pile]


@pytest.fixture(autouse=True)
def _own_home(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    has_folder = "tmp_path" in request.fixturenames  # to make one for each of ten thousand tests would cost more than they do
    own: Path = request.getfixturevalue("tmp_path") if has_folder else tmp_path_factory.getbasetemp() / f"{next(_NUMBERS)}"
    monkeypatch.setenv("LMTUI_HOME", str(own / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


@pytest.fixture(autouse=True)
def _one_copy_of_the_supervisor(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each home would have its own, which takes 10 ms in every test with a sandbox."""
    monkeypatch.setattr(backend, "_copied", lambda guest, _: _copied(guest, tmp_path_factory.getbasetemp() / "guest"))


@pytest.fixture(autouse=True)
def _no_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are counted as where there is no tokenizer: each worker would keep 60 MB for it."""
    monkeypatch.setattr("lmtui.models.tokens.load_counter", lambda *_: None)


@pytest.fixture(autouse=True)
def _no_log_file_of_another_test() -> Iterator[None]:
    """The program sends its log to the file of the home that it began in; the next test has a home of its own."""
    yield
    logger = logging.getLogger("lmtui")
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.propagate = True
