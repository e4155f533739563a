"""Moments of the prompt: paths and arguments completed, the history searched, folded pastes, the queue."""

from __future__ import annotations

from textual import events as textual_events

from lmtui.core.messages import Image
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

LOG = "\n".join(f"{number:03} tokenizer: state 0 at offset {number * 17}" for number in range(214))


async def prompt_paths(driver: Driver) -> None:
    """A path is being typed."""
    play_work(driver.host.session)
    await driver.press(*"compare @lex")
    await driver.until(lambda: driver.app.workbench.prompt.completing.is_open)


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


async def start_page(driver: Driver) -> None:
    """A new session, the second of the suggestions marked."""
    await driver.until(lambda: "Explain this project" in driver.text())
    await driver.press("down", "down")


PROMPT_SCENES = {
    "start_page": start_page,
    "prompt_paths": prompt_paths,
    "prompt_tokens": prompt_tokens,
    "prompt_queue": prompt_queue,
}
