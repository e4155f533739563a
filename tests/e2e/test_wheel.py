"""The wheel holds all that the program needs and nothing else, and runs from where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (made,) = folder.glob("*.whl")
    return made


def _program_files() -> Iterator[str]:
    for path in (path for folder in ("lmtui", "themes") for path in (ROOT / folder).rglob("*") if path.is_file()):
        name = str(path.relative_to(ROOT))
        if "__pycache__" not in name:
            yield f"lmtui/{name}" if name.startswith("themes/") else name


def test_the_wheel_holds_the_program_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert [name for name in _program_files() if name not in names] == []
    others = {name for name in names if not name.startswith("lmtui/")}
    assert {name.split("/")[0].endswith(".dist-info") for name in others} == {True}
    assert [name for name in names if "__pycache__" in name or "/tests/" in name] == []
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    place, folder = tmp_path / "installed", tmp_path / "folder"
    folder.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    environment = {**os.environ, "PYTHONPATH": str(place), "LMTUI_HOME": str(tmp_path / "home")}
    arguments = "sys.argv = ['lmtui', 'demo', '--headless']"
    demo = f"import lmtui, sys; print(lmtui.__file__); {arguments}; import lmtui.__main__ as it; sys.exit(it.main())"
    command = [sys.executable, "-P", "-c", demo]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.startswith(f"{place}/lmtui/")
