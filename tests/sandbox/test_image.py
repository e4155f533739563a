from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxUnavailable, UsageError
from lmtui.sandbox.images import build_image, trim
from tests.sandbox.conftest import unavailable


def test_trimming_takes_set_id_bits_and_leaves_links_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/share/doc/x").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.touch()
    outside.chmod(0o4755)
    su = root / "usr/bin/su"
    su.touch()
    su.chmod(0o6755)
    (root / "usr/bin/link").symlink_to(outside)
    trim(root)
    assert stat.S_IMODE(su.stat().st_mode) == 0o755
    assert stat.S_IMODE(outside.stat().st_mode) == 0o4755
    assert not (root / "usr/share/doc").exists()
    assert (root / "workspace").readlink() == Path("/opt/lmtui/link/workspace")


@pytest.mark.docker
async def test_an_image_is_pulled_only_by_a_name_that_says_where_from() -> None:
    try:
        with pytest.raises(UsageError, match="which registry"):
            await build_image("lmtui-test:1", source="debian:12", say=lambda _line: None)
    except SandboxUnavailable as reason:
        unavailable(reason)
