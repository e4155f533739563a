from __future__ import annotations

from lmtui.core.prompt_parts import INSTRUCTIONS, PERSONA, PartSource, PromptParts
from tests.tui.driving import Driver
from tests.tui.one_app import Cases

cases = Cases()

SOURCES = (PartSource(PERSONA, ".lmagent/.soul.md", 12), PartSource(INSTRUCTIONS, "AGENTS.md", 340, is_cut=True))
GUIDANCE = PromptParts("You are brief.", "Use tabs.", sources=SOURCES, problems=("CLAUDE.md was not read: it is a link",))


@cases
async def instructions_are_listed_with_their_price(driver: Driver) -> None:
    await driver.type("/instructions", "Reading")
    assert "/init drafts one" in driver.text()
    await driver.press("escape")
    driver.host.extensions.guide.guidance = GUIDANCE
    await driver.type("/instructions", "Reading")
    text = driver.text()
    assert "AGENTS.md: instructions, 340 tokens in each request; cut" in " ".join(text.split())
    assert "CLAUDE.md was not read: it is a link" in text
    assert "all together: 352 tokens" in text


@cases
async def a_draft_is_a_task_for_the_model(driver: Driver) -> None:
    await driver.type("/init the tests matter most")
    task = driver.host.session.submitted[-1]
    assert task.startswith("Write AGENTS.md")
    assert task.endswith("The user says: the tests matter most")
