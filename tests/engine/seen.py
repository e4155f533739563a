"""What a session on fakes published, by its type, and how a test writes the arguments of a call."""

from __future__ import annotations

import json
from typing import TypeVar

from lmtui.core.events import ApprovalRequested, Event, Outcome, ToolCallFinished, TurnEnded
from lmtui.core.messages import Role
from lmtui.core.model_events import Reminder
from lmtui.core.sessions import Answer
from tests.fakes import Rig

Seen = TypeVar("Seen", bound=Event)
Kind = TypeVar("Kind", bound=Rig)


def call(**arguments: object) -> str:
    return json.dumps(arguments)


def shell(command: str) -> tuple[str, str]:
    return "shell", call(command=command)


def seen(rig: Rig, kind: type[Seen]) -> list[Seen]:
    return [event for event in rig.events if isinstance(event, kind)]


def ending(rig: Rig) -> TurnEnded:
    return seen(rig, TurnEnded)[-1]


def finished(rig: Rig) -> ToolCallFinished:
    return seen(rig, ToolCallFinished)[0]


def results(rig: Rig) -> list[str]:
    return [event.result for event in seen(rig, ToolCallFinished)]


def user_texts(rig: Rig) -> list[str]:
    """Return the user messages of the last request."""
    return [message.text for message in rig.provider.requests[-1].messages if message.role is Role.USER]


def nudges(rig: Rig) -> list[str]:
    return [event.text for event in seen(rig, Reminder) if event.text.startswith("Not finished yet")]


async def question(rig: Rig, task: str = "") -> ApprovalRequested:
    """Wait for the first question that a session asks, where a task is given about that."""
    if task:
        rig.session.submit(task)
    asked = await rig.until(lambda event: isinstance(event, ApprovalRequested))
    assert isinstance(asked, ApprovalRequested)
    return asked


async def reply(rig: Rig, asked: ApprovalRequested, given: Answer | Outcome) -> None:
    """Answer a question and wait until the session has nothing more to do."""
    rig.session.answer(asked.approval_id, given if isinstance(given, Answer) else Answer(given))
    await rig.session.wait_idle()


async def ran(rig: Kind, task: str = "do it") -> Kind:
    """Give a session a task, and return it when its turn is over."""
    await rig.run(task)
    return rig
