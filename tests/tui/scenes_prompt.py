"""Moments of the prompt: paths and arguments completed, the history searched, folded pastes, the queue."""

from __future__ import annotations

from textual import events as textual_events

from lmtui.core import events
from lmtui.core.messages import Image
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

LOG = "\n".join(f"{number:03} tokenizer: state 0 at offset {number * 17}" for number in range(214))
PAST = (
    "Make the tokenizer accept nested comments and add tests.",
    "why does test_lexer fail on Windows?",
    "explain @parser/lexer.py:40-60",
    "add a test for comments in strings",
    "what does git say?",
)


async def prompt_paths(driver: Driver) -> None:
    """A path is being typed."""
    play_work(driver.host.session)
    await driver.press(*"compare @lex")
    await driver.until(lambda: driver.app.workbench.prompt.completing.is_open)


async def prompt_values(driver: Driver) -> None:
    """The argument of a command is being typed."""
    play_work(driver.host.session)
    await driver.press(*"/mode ")


async def prompt_history(driver: Driver) -> None:
    """The history is searched."""
    play_work(driver.host.session)
    for text in PAST:
        driver.app.workbench.prompt.history_texts.add(text)
    await driver.press(*"test")
    await driver.press("ctrl+r")


async def prompt_tokens(driver: Driver) -> None:
    """A large paste and a picture are tokens."""
    play_work(driver.host.session)
    prompt = driver.app.workbench.prompt
    await driver.press(*"The log says ")
    prompt.post_message(textual_events.Paste(LOG))
    await driver.settle()
    prompt.insert(f" and it looks like {prompt.folds.add_image(Image('screen.png', 'image/png', b''))}")


async def prompt_queue(driver: Driver) -> None:
    """Several texts wait while the agent works."""
    play_work(driver.host.session)
    for text in ("then update the README", "and run the linter over everything you touched, please", "commit"):
        await driver.type(text)


async def prompt_paused(driver: Driver) -> None:
    """The agent was interrupted while something waited."""
    play_work(driver.host.session)
    await driver.type("then update the README")
    await driver.press("escape")


async def prompt_command(driver: Driver) -> None:
    """The user ran a command themselves."""
    session = driver.host.session
    play_work(session)
    session.end_turn()
    session.emit(events.TurnStarted(turn_id="turn-9"))
    session.emit(
        events.ToolCallStarted(
            call_id="u1", tool="shell", arguments={"command": "git status --short"}, title="git status --short",
            turn_id="turn-9", by="user",
        )
    )  # fmt: skip
    session.emit(
        events.ToolCallFinished(
            call_id="u1", tool="shell", ok=True, result=" M parser/lexer.py\n?? notes.md", elapsed_ms=42, decision="once",
            why="you typed it",
        )
    )  # fmt: skip
    session.emit(events.TurnEnded(turn_id="turn-9", reason=events.TurnReason.DONE, status="done"))


async def start_page(driver: Driver) -> None:
    """A new session, the second of the suggestions marked."""
    await driver.until(lambda: "Explain this project" in driver.text())
    await driver.press("down", "down")


PROMPT_SCENES = (
    ("start_page", start_page),
    ("prompt_paths", prompt_paths),
    ("prompt_values", prompt_values),
    ("prompt_history", prompt_history),
    ("prompt_tokens", prompt_tokens),
    ("prompt_queue", prompt_queue),
    ("prompt_paused", prompt_paused),
    ("prompt_command", prompt_command),
)
