"""Sessions that version 0.1.0 recorded (at 9b698eb) still load, and go on as they did there.

`recorded/*.jsonl` are logs of the engine's tests and of the demo as that version wrote them, with every kind of durable
event.  `recorded/resumed.json` holds what that version made of each on resume: mode, rules, form of tool calls, an open plan,
and each message of the next request but the system prompt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lmtui.core.prompt_parts import PromptParts
from lmtui.store.session_logs import EVENT_TYPES, decode, encode
from tests.fakes import FakeProvider, Rig, answer
from tests.sets import for_each

RECORDED = Path(__file__).parent / "recorded"
# What lmtui itself tells the model on resume is worded differently now.
REWORDED = {"How your work stands": "The state of your work", "The instructions,": "Ignore the earlier instructions,",
            " that you were given hold no more.": "."}  # fmt: skip
INTERRUPTED = ["assistant", "(interrupted)", [], ""]  # in place of the answer to a turn that has none
GONE = {"edits", "counters"}  # fields that nothing reads any more
RESUMED: dict[str, dict[str, Any]] = json.loads((RECORDED / "resumed.json").read_text(encoding="utf-8"))


class NoFiles:
    async def read(self, limit_chars: int) -> PromptParts:
        del limit_chars
        return PromptParts()


def reworded(text: str) -> str:
    for before, now in REWORDED.items():
        text = text.replace(before, now)
    return text


def lines_of(name: str) -> list[str]:
    return (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()


def is_in(before: object, now: object) -> bool:
    """Tell whether a value is the same now, apart from fields that came later."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(key in GONE or (key in now and is_in(each, now[key])) for key, each in before.items())
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(is_in, before, now))
    return before == now


def test_every_durable_event_of_that_version_is_in_a_recording() -> None:
    assert sorted(path.stem for path in RECORDED.glob("*.jsonl")) == sorted(RESUMED)
    kinds = {json.loads(line)["kind"] for name in RESUMED for line in lines_of(name)}
    assert len(kinds) == 40
    assert kinds <= {event.kind for event in EVENT_TYPES}


@for_each("name", sorted(RESUMED))
def test_nothing_that_was_recorded_is_lost(name: str) -> None:
    for line in lines_of(name):
        assert is_in(json.loads(line), json.loads(encode(decode(line))))


@for_each("name", sorted(RESUMED))
async def test_a_recorded_session_goes_on_where_it_ended(name: str) -> None:
    provider = FakeProvider(answer("ok"))
    past = [decode(line) for line in lines_of(name)]
    rig = Rig(provider, past=past, guide=NoFiles())
    session = rig.session
    state = {
        "mode": str(session.mode), "rules": [str(rule) for rule in session.rules],
        "plan": session.plans.open is not None, "form": str(session.call_form().form),
    }  # fmt: skip
    assert list(session.history())[: len(past)] == past
    await rig.run("once more")
    messages = [[
        str(each.role), reworded(each.text) if each.role != "system" else "",
        [call.id for call in each.tool_calls], each.call_id,
    ] for each in provider.requests[0].messages]  # fmt: skip
    assert messages.count(INTERRUPTED) <= 1
    messages = [each for each in messages if each != INTERRUPTED]
    before = RESUMED[name]
    assert state == {"mode": before["mode"], "rules": before["rules"], "plan": bool(before["plan"]), "form": before["form"]}
    assert messages == [[role, reworded(text), *calls] for role, text, *calls in before["messages"]]
