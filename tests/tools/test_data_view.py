from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Access
from lmtui.core.workspace import ExecResult
from lmtui.tools.data_script import PROBLEM, Unreadable, look
from lmtui.tools.registry import ToolRegistry
from tests.fakes import FakeSandbox
from tests.sets import few, for_each
from tests.tools.test_files import Bench

REGISTRY = ToolRegistry()
SCRIPT = resources.files("lmtui.tools").joinpath("data_script.py").read_text()


def looked(path: Path, rows: int = 2, *wanted: str) -> dict[str, Any]:
    try:
        return look(str(path), rows, list(wanted))._asdict()
    except Unreadable as error:
        return {"problem": str(error)}


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@for_each(("text", "width", "rows", "head"), [
    ("a;b\n1;x\n", 2, 1, [["1", "x"]]), ("a\tb\n1\t\"x\ty\"\n", 2, 1, [["1", "x y"]]),
    ("1,2\n3,4\n", 2, 2, [["1", "2"], ["3", "4"]]), ("a,a\n1,2\n", 2, 1, [["1", "2"]]),
    ("a,b\n1\n1,2,3\n", 3, 2, [["1", "", ""], ["1", "2", "3"]]), ("a,b\n\"x\ny\",2\n", 2, 1, [["x y", "2"]]),
    ("a\n\0b\n", 1, 1, [["b"]]), ("", 0, 0, []), ("a,b\n", 0, 0, []),
])  # fmt: skip
def test_its_relatives_are_read_too(tmp_path: Path, text: str, width: int, rows: int, head: list[list[str]]) -> None:
    found = looked(written(tmp_path, "a.csv", text))
    assert (found["width"], found["rows"], found["head"]) == (width, rows, head)


def test_json_lines_lists_and_odd_values(tmp_path: Path) -> None:
    lines = '{"a": 1, "b": {"c": 2}}\n\n{"a": 2.5, "d": null}\n5\n'
    found = looked(written(tmp_path, "a.jsonl", lines), 5)
    assert found["rows"] == 3
    assert found["columns"] == [("a", "float", 0), ("b", "object", 0), ("d", "", 1), ("value", "int", 0)]
    assert found["head"][0] == ["1", '{"c": 2}', "", ""]
    assert looked(written(tmp_path, "a.json", '[{"a": 1}, {"a": 2}]'))["rows"] == 2
    assert looked(written(tmp_path, "b.jsonl", '{"a": 1}\n{"a": '))["problem"].startswith("line 2 is not JSON")
    assert "line 1 is not JSON" in looked(written(tmp_path, "c.json", "[" * 100_000))["problem"]


def test_a_csv_is_told_by_shape_both_ends_and_chosen_columns(tmp_path: Path) -> None:
    rows = "".join(f"{number},name {number},{number / 2},\n" for number in range(1_000))
    found = looked(written(tmp_path, "a.csv", "\ufeffid,name,half,note\n" + rows))
    assert (found["kind"], found["rows"], found["width"]) == ("CSV", 1_000, 4)
    assert found["columns"] == [("id", "int", 0), ("name", "text", 0), ("half", "float", 0), ("note", "", 1_000)]
    assert found["head"] == [["0", "name 0", "0.0", ""], ["1", "name 1", "0.5", ""]]
    assert found["tail"] == [["998", "name 998", "499.0", ""], ["999", "name 999", "499.5", ""]]
    path = written(tmp_path, "a.csv", "a,b,c\n1,2,3\n")
    assert looked(path, 2, "c", "a")["head"] == [["1", "3"]]
    assert looked(path, 2, "z")["problem"] == "no column z; there are: a, b, c"


def test_parquet_is_read_by_its_library_or_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pip install pyarrow" in looked(written(tmp_path, "a.parquet", b"PAR1"))["problem"]
    assert "pip install pyarrow" in looked(written(tmp_path, "b", b"PAR1"))["problem"]
    fields = [SimpleNamespace(name="id", type="int64"), SimpleNamespace(name="name", type="string")]
    batch = SimpleNamespace(to_pylist=lambda: [{"id": 1, "name": "a"}])
    found = SimpleNamespace(schema_arrow=fields, metadata=SimpleNamespace(num_rows=3), iter_batches=lambda _: iter([batch]))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", SimpleNamespace(ParquetFile=lambda _: found))
    told = look(str(written(tmp_path, "a.parquet", b"PAR1")), 1, ["name"])
    assert (told.rows, told.columns, told.head) == (3, [("name", "string", 0)], [["a"]])


@for_each("name", few(["p", "p.csv", "p.json", "p.parquet"]))
def test_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    (tmp_path / f"to-{name}").symlink_to("/dev/zero")
    assert looked(tmp_path / name) == looked(tmp_path / f"to-{name}") == {"problem": "not a regular file"}


class OneAnswer(FakeSandbox):
    """Answers each command with the same words."""

    def __init__(self, output: str, *, code: int = 0, is_timed_out: bool = False) -> None:
        super().__init__()
        self.result = ExecResult(code, output, len(output), 5, is_timed_out=is_timed_out)

    async def run_command(self, command: str, **limits: Any) -> ExecResult:
        self.ran.append(command)
        assert limits["timeout_s"] > 0
        return self.result


async def viewed(output: str, **more: Any) -> str:
    sandbox = OneAnswer(output, **more)
    context = replace(Bench().context(), sandbox=sandbox)
    result = await REGISTRY.prepare("data_view", '{"path": "a b.csv", "rows": 3}').run(context)
    assert "'a b.csv' 3 '[]'" in sandbox.ran[0]
    return result.text


@for_each(("text", "rows", "code", "told"), [
    ("id,a\n1,x\n2,\n", 1, 0,
     "a.csv: CSV, 2 rows × 2 columns\ncolumns (types and empty cells of the first 2 rows):\n  id: int\n  a: text, 1 empty\n"
     "first rows:\nid | a\n1 | x\nlast rows:\nid | a\n2 | "),
    ("a,\"b\nc\"\n", 2, 0, "a.csv: CSV, 0 rows × 0 columns"), (None, 2, PROBLEM, "No such file or directory"),
])  # fmt: skip
def test_it_is_told_in_few_lines(tmp_path: Path, text: str | None, rows: int, code: int, told: str) -> None:
    name = "a.csv" if text is not None else "none.csv"
    written(tmp_path, "a.csv", text or "")
    command = [sys.executable, "-I", "-c", SCRIPT, name, str(rows), "[]"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout.decode()) == (code, told)


async def test_whatever_the_script_says_is_an_answer_or_a_clear_error() -> None:
    for output in ("", "python3: not found"):
        with pytest.raises(ToolError, match="could not be looked into"):
            await viewed(output, code=1)
    assert await viewed("a b.csv: CSV, 1 rows × 2 columns\n\x1b[2Jx") == "a b.csv: CSV, 1 rows × 2 columns\nx"
    with pytest.raises(ToolError, match="no such thing"):
        await viewed("no such thing", code=PROBLEM)
    with pytest.raises(ToolError, match="not read through"):
        await viewed("", is_timed_out=True)


def test_it_reads_one_file_and_is_told_only_where_all_tools_are() -> None:
    call = REGISTRY.prepare("view_data", '{"path": "data/a.csv"}')
    assert (call.tool, call.access, call.subjects) == ("data_view", Access.READ, ("data/a.csv",))
    assert "data_view" not in [spec.name for spec in REGISTRY.specs()]
