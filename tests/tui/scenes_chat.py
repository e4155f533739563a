"""Pictures of the conversation: searched, copied from, unfolded, read while more comes in."""

from __future__ import annotations

from lmtui.core import events
from lmtui.tui.lines.transcript import Transcript
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

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


def transcript_of(driver: Driver) -> Transcript:
    """Return the conversation on screen."""
    panes = driver.app.workbench.panes
    assert panes is not None
    assert panes.current is not None
    return panes.current.transcript


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
    return transcript_of(driver)


async def chat_search(driver: Driver) -> None:
    """Words found in the whole session, one of them behind a fold."""
    await talk(driver)
    await driver.type("/search depth")
    await driver.press("n", "n")


async def chat_search_line(driver: Driver) -> None:
    """Words being typed."""
    await talk(driver)
    await driver.press("ctrl+f", *"comment")
    await driver.settle()


async def chat_copy_mode(driver: Driver) -> None:
    """A cursor on the text, some of it selected."""
    transcript = await talk(driver)
    transcript.focus()
    await driver.press("g", "v", "g", "j", "j", "j", "j", "w", "v", "j", "dollar_sign")


async def chat_call(driver: Driver) -> None:
    """A call unfolded: its arguments and what came of it."""
    transcript = await talk(driver)
    transcript.focus()
    transcript.show_call("g1")
    await driver.press("enter")


async def chat_below(driver: Driver) -> None:
    """A reader further up, while more comes in; the mouse is the terminal's."""
    transcript = await talk(driver)
    transcript.focus()
    await driver.press("g", "alt+m")
    driver.host.session.say("Done with the counter.")
    driver.host.session.start_call("c9", "shell", "pytest -q")
    driver.app.workbench.say("")
    await driver.settle()
