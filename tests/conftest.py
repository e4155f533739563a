"""What the whole suite shares: tests that need git are skipped where it is not installed, and fail where CI says it must be.

Property tests have no deadline: how long an example takes on a busy machine says nothing of the code.
"""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import settings

settings.register_profile("lmtui", deadline=None)
settings.load_profile("lmtui")


@pytest.fixture(autouse=True)
def _git_is_there(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("git") is None or shutil.which("git"):
        return
    if os.environ.get("LMTUI_REQUIRE_SANDBOX") == "1":
        pytest.fail("git is not installed")
    pytest.skip("git is not installed")
