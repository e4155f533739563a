"""What looking at a step's change costs: CPU of parsing the files that it changed, read through the sandbox."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from statistics import median
from time import process_time

import yaml

from benchmarks.report import Figure
from lmtui.engine.syntax import unparsed
from lmtui.sandbox.select import select_sandbox
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_ROOT = Path(__file__).parents[1]
_GOAL_MS = 15.0
_ROUNDS = 15


def figures() -> list[Figure]:
    """Measure steps that change one file each."""
    return asyncio.run(_figures())


def texts() -> dict[str, str]:
    """Return files of the usual kinds, by name: real code of two sizes, records as JSON and YAML."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted((_ROOT / "lmtui/engine").glob("*.py")))
    lines = [line for line in code.splitlines() if not line.startswith("from __future__")]
    records = [{"id": number, "name": f"record {number}", "tags": ["a", "b"], "is_on": True} for number in range(100)]
    return {
        "500 lines of Python/a.py": _whole(lines, 500),
        "2,000 lines of Python/b.py": _whole(lines, 2000),
        "600 lines of JSON/c.json": json.dumps(records, indent=2),
        "600 lines of YAML/d.yaml": yaml.safe_dump(records),
    }


def _whole(lines: list[str], count: int) -> str:
    """Return at most so many lines that end where a definition does."""
    last = max(place for place in range(1, count + 1) if lines[place].startswith(("def ", "class ", "async def ")))
    return "\n".join(lines[:last]) + "\n"


async def _figures() -> list[Figure]:
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="lmtui-bench-") as name:
        workspace = Path(name)
        for path, text in texts().items():
            (workspace / path.partition("/")[2]).write_text(text, encoding="utf-8")
        sandbox = await select_sandbox(workspace)
        try:
            await sandbox.status()
            for path in texts():
                what, _, file = path.partition("/")
                spent = [await _cpu_ms(sandbox, file) for _ in range(_ROUNDS)]
                found.append(Figure(f"parse after a step, {what}", median(spent), "ms CPU", _GOAL_MS))
        finally:
            await sandbox.close()
    return found


async def _cpu_ms(sandbox: WorkspaceSandbox, file: str) -> float:
    began = process_time()
    assert not await unparsed(sandbox, [file])
    return (process_time() - began) * 1000
