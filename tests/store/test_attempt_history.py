from __future__ import annotations

import json
from pathlib import Path

from lmtui.store import attempt_history
from lmtui.store.attempt_history import AttemptResult, ModelRecord, add_results, read_results, records

ONE = AttemptResult("2026-03-14T14:02:00+00:00", "r1", "abc", "py", "small", green=True, lines=7, seconds=12.5, won=False)


def result(run: str, model: str, *, green: bool = False, won: bool = False, lines: int = 7) -> AttemptResult:
    return AttemptResult("2026-03-14T14:02:00+00:00", run, "abc", "py", model, green=green, lines=lines, seconds=10.0, won=won)


def test_only_rounds_with_several_models_count_for_who_won() -> None:
    found = records([
        result("r1", "small", green=True, lines=3),
        result("r1", "large", green=True, won=True, lines=9),
        result("r2", "small", green=True, won=True, lines=5),
        result("r3", "none"),
    ])  # fmt: skip
    assert found == [
        ModelRecord("large", 1, 1, 1, 1, 9, 10.0), ModelRecord("small", 2, 2, 1, 0, 4, 10.0),
        ModelRecord("none", 1, 0, 0, 0, 7, 10.0),
    ]  # fmt: skip


def test_results_come_back_of_many_the_newest_and_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "new" / "attempts.jsonl"
    assert read_results(file) == []
    add_results([ONE], file)
    with file.open("a") as target:
        target.write('{"model": "x"}\nno json\n[]\n{"lines": "many"}\n')
    add_results([result("r2", "sm\ud800all")], file)
    assert [each.model for each in read_results(file)] == ["small", "sm\ud800all"]
    file = tmp_path / "attempts.jsonl"
    line = json.dumps(
        {"time": "", "run": "r", "task": "", "kind": "", "model": "m", "green": 1, "lines": 1, "seconds": 1, "won": 0}
    )
    file.write_text(f"{line}\n" * 40_000)
    add_results([ONE], file)
    kept = read_results(file)
    assert (len(kept), kept[-1]) == (attempt_history._MOST_RESULTS // 2, ONE)
    (tmp_path / "file").write_text("")
    add_results([ONE], tmp_path / "file" / "attempts.jsonl")
    assert (tmp_path / "file").read_text() == ""
