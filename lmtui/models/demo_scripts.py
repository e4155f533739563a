"""What a scripted model says, turn by turn, and the scripts of `lmtui demo` (`demo.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class FaultKind(StrEnum):
    """How the scripted server misbehaves in place of, or in the middle of, an answer."""

    REFUSE = "refuse"
    STATUS = "status"
    LOADING = "loading"
    STALL = "stall"
    CUT = "cut"
    GARBAGE = "garbage"
    ERROR_OBJECT = "error_object"
    HTML = "html"
    HALF_CALL = "half_call"


@dataclass(frozen=True, slots=True)
class ScriptedFault:
    """One fault.

    `times` is how often it happens before the turn is played well (0: always); `status`, `retry_after_s` and `body` belong to
    `status`; `after_pieces` says how much is streamed before `stall`, `cut`, `garbage` and `error_object`; `seconds` is how
    long `stall` lasts.
    """

    kind: FaultKind
    times: int = 0
    status: int = 500
    retry_after_s: float = 0.0
    body: str = ""
    after_pieces: int = 0
    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call; `arguments` as an object, or as raw text where it is meant to be broken."""

    name: str
    arguments: dict[str, object] | str


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One answer.

    `pieces` cuts the text at will (default: words); `rate` is pieces a second, 0 as fast as they are taken; `expect` must be
    part of the last tool result, else `otherwise` is said and the script is over.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    pieces: tuple[str, ...] = ()
    rate: float = 0.0
    finish_reason: str = ""
    fault: ScriptedFault | None = None
    expect: str = ""
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversation: turn N answers the request with N assistant messages.  `match` is part of the first user message.

    With a `seed` it is that of requests with this seed alone.

    With `goes_by_words` it is the turn behind the last one whose text is anywhere in the request: so the script continues
    where it was though the beginning of the conversation was summed up.
    """

    turns: tuple[ScriptedTurn, ...]
    name: str = "scenario"
    match: str = ""
    ending: str = "My script is over."
    models: tuple[str, ...] = field(default=("scripted",))
    window_tokens: int = 32_768
    goes_by_words: bool = False
    seed: int | None = None


DEMO_MODEL = "scripted-demo"
PLAN_DEMO_TASK = "Plan a small Python module that counts the words of a text, with a test."
AGENTS_DEMO_TASK = "Have sub-agents write a small Python module for temperatures, with a test."
DEMO_TASK = "Write a small Python package that turns text into slugs, test it, and commit it."

TEST_COMMAND = "python3 -m unittest discover -s tests -t . -v"
DEMO_RULES = (f"Shell({TEST_COMMAND})",)  # for a sandbox that asks for each command, where nobody is there to be asked


def demo_scenarios(rate: float = 0.0) -> tuple[Scenario, ...]:
    """Return the conversations of `demo.toml`; `rate` is words a second, 0 as fast as they are taken.  Reads the file.

    Those of sub-agents come before that of their parent, as they are told its task too.
    """
    scripts = tomllib.loads(Path(__file__).with_name("demo.toml").read_text(encoding="utf-8"))["script"]
    return tuple(
        Scenario(
            name=script["name"],
            match=script["match"],
            models=(DEMO_MODEL,),
            window_tokens=8192,
            ending="The script is over. With a real model you would go on from here: `lmtui models` shows what runs.",
            turns=tuple(_turn(rate=rate, **turn) for turn in script["turns"]),
        )
        for script in scripts
    )


def _turn(calls: Sequence[Mapping[str, Any]] = (), **fields: Any) -> ScriptedTurn:  # Any: TOML
    made = tuple(ScriptedCall(each["name"], each.get("arguments", {})) for each in calls)
    return ScriptedTurn(calls=made, **fields)
