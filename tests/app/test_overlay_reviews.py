from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.attempts import OverlayReview, applied_patch
from lmtui.core.errors import SandboxError


async def test_a_patch_that_is_a_link_or_missing_is_not_read(tmp_path: Path) -> None:
    unused: Any = None
    applied = partial(applied_patch, tmp_path / "1.patch", unused, unused)
    review = OverlayReview(unused, unused, applied, "batch", "task 1", "", unused)
    with pytest.raises(SandboxError, match="is missing"):
        await review.parts()
    (tmp_path / "1.patch").symlink_to("/dev/zero")
    with pytest.raises(SandboxError, match="it is a link"):
        await review.keep(None)
