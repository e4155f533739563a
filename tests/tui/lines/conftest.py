from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _frames_between() -> None:
    """All are drawn: how they are is what these tests are about."""
