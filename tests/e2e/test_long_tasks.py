from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def example() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "long-tasks.md").read_text(), re.DOTALL)
    return str(found)


def play(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    (folder / "batch.py").write_text(script)
    environ = {
        **os.environ, "PYTHONPATH": str(ROOT), "LMTUI_HOME": str(folder.parent / "home"), "LMTUI_SANDBOX": "process",
    }  # fmt: skip
    run = [sys.executable, "batch.py"]
    return subprocess.run(run, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_the_example_of_the_docs_runs_to_its_end(tmp_path: Path) -> None:
    found = play(tmp_path / "whole", example())
    assert found.returncode == 0, found.stderr
    assert [path.read_text() for path in sorted((tmp_path / "whole" / "notes").iterdir())] == [
        f"# notes/{number}.md\n" for number in range(1, 6)
    ]


def test_an_example_that_stops_early_is_not_finished(tmp_path: Path) -> None:
    script = example().replace("DONE = NAMES ", "DONE = NAMES[:3] ")
    found = play(tmp_path / "part", script)
    assert found.returncode == 2, found.stdout + found.stderr
    assert "not finished: 3 of 5 processed, next is notes/4.md" in found.stdout + found.stderr
