"""What the whole suite shares: a home of its own, and tests that need git are skipped where it is not installed.

No test meets the settings, sessions and rules of whoever runs it: `LMTUI_HOME` is `home` in a folder of the test's own.

Property tests have no deadline: how long an example takes on a busy machine says nothing of the code.

Programs that tests start keep their compiled modules, whatever the environment says: without them each start takes four
times as long.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("lmtui", deadline=None)
settings.load_profile("lmtui")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
_NUMBERS = count()


def pytest_configure(config: pytest.Config) -> None:
    """Draw all pictures when they are made anew, not only those that CI looks at."""
    if config.getoption("update_snapshots", default=False):
        os.environ["LMTUI_ALL_PICTURES"] = "1"


@pytest.fixture(autouse=True)
def _own_home(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    has_folder = "tmp_path" in request.fixturenames  # to make one for each of ten thousand tests would cost more than they do
    own: Path = request.getfixturevalue("tmp_path") if has_folder else tmp_path_factory.getbasetemp() / f"{next(_NUMBERS)}"
    monkeypatch.setenv("LMTUI_HOME", str(own / "home"))


@pytest.fixture(autouse=True)
def _no_log_file_of_another_test() -> Iterator[None]:
    """The program sends its log to the file of the home that it began in; the next test has a home of its own."""
    yield
    logger = logging.getLogger("lmtui")
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.propagate = True


@pytest.fixture(autouse=True)
def _git_is_there(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("git") is None or shutil.which("git"):
        return
    if os.environ.get("LMTUI_REQUIRE_SANDBOX") == "1":
        pytest.fail("git is not installed")
    pytest.skip("git is not installed")
