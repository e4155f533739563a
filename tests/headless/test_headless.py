from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime

import pytest

from lmtui.core.events import (
    Envelope,
    Event,
    FilesChanged,
    Level,
    Notice,
    RetryScheduled,
    SandboxSelected,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
    TurnStarted,
    Verified,
)
from lmtui.core.messages import Usage
from lmtui.headless.run import Reporter
from tests.fakes import FakeProvider, Rig

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ATTACK = "\x1b]0;owned\x07\x1b[2Jx\x9b1m\u202ey\r"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


class Stage:
    """A reporter, what it printed, and the session that it reports of."""

    def __init__(self, output: str) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.reporter = Reporter(output, self.out, self.err)
        self.session = Rig(FakeProvider()).session

    def play(self, *events: Event) -> int:
        for number, event in enumerate(events, 1):
            self.reporter.take(Envelope(number, NOW, self.session.id, event))
        return self.reporter.finish(self.session)


def ended(reason: TurnReason = TurnReason.DONE, **fields: object) -> TurnEnded:
    return TurnEnded(turn_id="t1", reason=reason, status=str(reason), **fields)  # type: ignore[arg-type]  # the event's own fields


WORK = (
    SandboxSelected(backend="files", network="none", text="no shell: file tools only", is_weaker=True, reason="no docker"),
    TextDelta(text="half a thought"),
    ToolCallStarted(call_id="c1", tool="shell", arguments={}, title="make test" + " x" * 200),
    ToolCallFinished(call_id="c1", tool="shell", ok=False, result="secret result", elapsed_ms=12, summary="exit 2"),
    FilesChanged(call_id="c1", files=("a",)),
    RetryScheduled(attempt=1, attempts=3, wait_s=0.5, reason="busy"),
    Notice(level=Level.INFO, text="not worth a line"),
    Notice(level=Level.WARNING, text="the window is small"),
)


def test_text_puts_the_answer_alone_on_standard_output() -> None:
    stage = Stage("text")
    code = stage.play(*WORK, ended(text="the answer", files_changed=("a",), iterations=2, elapsed_s=1.5, sandbox="files"))
    assert (code, stage.out.getvalue()) == (0, "the answer\n")
    told = stage.err.getvalue()
    said = (
        "sandbox: no shell: file tools only (no docker)", "tool: shell make test x", " x ... failed, exit 2, 12 ms\n",
        "busy. Again in 1 second, attempt 1 of 3.", "warning: the window is small",
        "[done, 2 steps, sandbox files, 1 file changed, 1.5 seconds; session ",
    )  # fmt: skip
    assert [words for words in said if words not in told] == []
    for words in ("half a thought", "secret result", "not worth a line"):
        assert words not in told


def test_changes_that_nothing_checked_are_not_verified_and_an_answer_of_blanks_prints_nothing() -> None:
    stage = Stage("text")
    stage.play(ended(text=" \n", files_changed=("a",), verified=Verified.UNVERIFIED))
    assert "[done, not verified, " in stage.err.getvalue()
    assert stage.out.getvalue() == ""


def test_nothing_foreign_steers_the_terminal() -> None:
    stage = Stage("text")
    stage.play(
        ToolCallStarted(call_id="c1", tool=ATTACK, arguments={}, title=ATTACK),
        ToolCallFinished(call_id="c1", tool=ATTACK, ok=False, result="", elapsed_ms=1, summary=ATTACK),
        RetryScheduled(attempt=1, attempts=3, wait_s=0.5, reason=ATTACK),
        Notice(level=Level.ERROR, text=ATTACK),
        ended(TurnReason.ERROR, text=ATTACK, error=ATTACK, exit_code=1),
    )
    assert CONTROLS.search(stage.out.getvalue() + stage.err.getvalue()) is None


@pytest.mark.parametrize(("reason", "code"), [
    (TurnReason.DONE, 0), (TurnReason.ERROR, 1), (TurnReason.LIMIT, 2), (TurnReason.BLOCKED, 3),
    (TurnReason.INTERRUPTED, 130),
])  # fmt: skip
@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_the_exit_code_is_the_turns_in_every_form(output: str, reason: TurnReason, code: int) -> None:
    assert Stage(output).play(ended(reason, exit_code=code)) == code


def test_json_is_one_object_and_nothing_else() -> None:
    stage = Stage("json")
    stage.play(*WORK, ended(text="a\nb", usage=Usage(1, 2, 3), files_changed=("a",)))
    told = json.loads(stage.out.getvalue())
    assert told["text"] == "a\nb"
    assert told["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 3}
    assert (told["files_changed"], stage.out.getvalue().count("\n")) == (["a"], 1)
    assert stage.err.getvalue() == ""


def test_stream_json_is_a_line_an_event_with_deltas() -> None:
    stage = Stage("stream-json")
    stage.play(*WORK, ended(text="line\nbreak \u2028 and \x85"))
    lines = stage.out.getvalue().split("\n")
    assert lines.pop() == ""
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == [*(event.kind for event in WORK), "turn_ended"]


def test_a_session_that_never_ended_its_turn_is_an_error_and_its_stream_ends_in_turn_ended() -> None:
    stage = Stage("stream-json")
    assert stage.play(*WORK) == 1
    last = json.loads(stage.out.getvalue().splitlines()[-1])
    assert (last["kind"], last["exit_code"]) == ("turn_ended", 1)
    stage = Stage("text")
    assert stage.play(*WORK) == 1
    assert "ended before its turn" in stage.err.getvalue()


def test_a_stream_ends_in_the_end_of_the_run_with_the_figures_of_all_its_turns() -> None:
    stage, turn = Stage("stream-json"), TurnStarted(turn_id="t")
    stage.reporter.lacks = "no JSON"
    assert stage.play(turn, ended(usage=Usage(1, 2, 3), iterations=2), turn, ended(usage=Usage(4, 5, 6), iterations=1)) == 2
    first, last = [found for line in stage.out.getvalue().splitlines() if (found := json.loads(line))["kind"] == "turn_ended"]
    assert (first["status"], first["iterations"], first["seq"], last["seq"]) == ("done", 2, 2, 4)
    assert {name: last[name] for name in ("reason", "status", "exit_code", "error", "iterations")} == {
        "reason": "unfinished", "status": "unfinished", "exit_code": 2, "error": "no JSON", "iterations": 3,
    }  # fmt: skip
    assert last["usage"] == {"prompt_tokens": 5, "completion_tokens": 7, "cached_tokens": 9}
