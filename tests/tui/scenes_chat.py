"""Pictures of the conversation: searched, copied from, unfolded, read while more comes in."""

from __future__ import annotations

from lmtui.core import events
from lmtui.core.events import CheckSummary, TurnEnded, TurnReason
from lmtui.core.verification import CheckOutcome, CheckRan, Rung
from lmtui.features.hooks.values import HookRan
from lmtui.tui.lines.transcript import Transcript
from tests.tui.driving import Driver
from tests.tui.fakes import FakeSession, play_work

ANSWER = """\
Two ways to nest them; the [manual](https://docs.example.org/lexers) describes both:

1. **Count the depth** and go on until it is zero again.
2. Keep a *stack* of openings, for messages that name the line.

| way   | state    | error names the line |
|-------|----------|----------------------|
| count | one int  | no                   |
| stack | one list | yes                  |

```python
def skip_comment(self) -> None:
    depth = 1  # the opening one
    while depth:
        depth += self.step()
```
"""


async def talk(driver: Driver) -> Transcript:
    """A question, an answer with everything in it, and work after it."""
    session = driver.host.session
    session.begin_turn("How could comments nest?")
    session.say(ANSWER, thinking="A depth would do.\nA stack says more in errors.", thinking_s=4)
    arguments: dict[str, object] = {
        "path": "parser/lexer.py",
        "pattern": "skip_comment|depth",
        "text": "\n".join(f"line {number} of what is written" for number in range(12)),
    }
    session.emit(events.ToolCallStarted(call_id="g1", tool="grep", arguments=arguments, title="skip_comment parser/lexer.py"))
    session.emit(
        events.ToolCallFinished(
            call_id="g1",
            tool="grep",
            ok=True,
            result="41: def skip_comment(self):\n42: depth = 1",
            elapsed_ms=7,
            summary="2 hits",
        )
    )
    session.end_turn()
    await driver.settle()
    play_work(session)
    await driver.settle()
    return driver.transcript


async def chat_search(driver: Driver) -> None:
    """Words found in the whole session, one of them behind a fold."""
    await talk(driver)
    await driver.type("/search depth")
    await driver.press("n", "n")


async def chat_call(driver: Driver) -> None:
    """A call unfolded: its arguments and what came of it."""
    transcript = await talk(driver)
    transcript.focus()
    transcript.show_call("g1")
    await driver.press("enter")


async def hooks(driver: Driver) -> None:
    """A hook forbade a call, another failed; the log has both."""
    session = driver.host.session
    play_work(session)
    session.emit(HookRan(event="PreToolUse", command="guard.sh", exit_code=0, elapsed_ms=8))
    session.emit(
        HookRan(event="PreToolUse", command="guard.sh", exit_code=2, decision="deny", said="I push myself", elapsed_ms=9)
    )
    session.emit(
        HookRan(
            event="PostToolUse", command="ruff format -q .", exit_code=-1, said="did not end within 20 s", elapsed_ms=20_012
        )
    )
    await driver.settle()


_PYTEST = "python3 -m pytest -q -p no:cacheprovider"
_RED = "FAILED tests/test_comments.py::test_nested\ntests/test_comments.py:12: AssertionError\nE  assert 3 == 4"


def _ran(session: FakeSession, rung: Rung, outcome: CheckOutcome, command: str, text: str = "", seconds: float = 0.4) -> None:
    code = {CheckOutcome.PASSED: 0, CheckOutcome.NOT_RUN: -1}.get(outcome, 1)
    session.emit(
        CheckRan(
            rung=rung,
            outcome=outcome,
            command=command,
            exit_code=code,
            text=text,
            elapsed_s=seconds,
            decides=rung is Rung.SUITE,
        )
    )


async def checks_red(driver: Driver) -> None:
    """A linter is not there, a test fails, and the turn ends so."""
    session = driver.host.session
    play_work(session)
    _ran(session, Rung.LINT, CheckOutcome.NOT_RUN, "ruff check --no-cache parser/lexer.py", "ruff: command not found")
    _ran(session, Rung.TESTS, CheckOutcome.PASSED, f"{_PYTEST} tests/test_lexer.py", seconds=1.2)
    _ran(session, Rung.SUITE, CheckOutcome.FAILED, _PYTEST, _RED, 3.4)
    session.emit(
        TurnEnded(
            turn_id=session.turn_id,
            reason=TurnReason.UNFINISHED,
            error=f"not finished: the check `{_PYTEST}` fails: FAILED tests/test_comments.py::test_nested",
            verified="red",
            checks=(CheckSummary(_PYTEST, 1, 3.4),),
        )
    )
    await driver.settle()


CHAT_SCENES = {
    "chat_search": chat_search, "chat_call": chat_call,
    "hooks": hooks, "checks_red": checks_red,
}  # fmt: skip
