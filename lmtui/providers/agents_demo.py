"""The script of `lmtui demo --agents`: a task is taken apart, sub-agents do its parts one behind the other, and report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lmtui.providers.demo import AGENTS_DEMO_TASK, DEMO_MODEL
from lmtui.providers.scenario import Scenario, ScriptedCall, ScriptedTurn

_TEST_COMMAND = "python3 -m unittest -v test_degrees"
_MODULE = '''"""Degrees of one scale in another."""


def to_fahrenheit(celsius: float) -> float:
    """Return degrees Celsius in Fahrenheit."""
    return celsius * 9 / 5 + 32
'''
_TEST = """import unittest

from degrees import to_fahrenheit


class DegreesTest(unittest.TestCase):
    def test_water_boils(self):
        self.assertEqual(to_fahrenheit(100), 212)


if __name__ == "__main__":
    unittest.main()
"""
_MODULE_TASK = "Write degrees.py with to_fahrenheit."
_TEST_TASK = "Write test_degrees.py and run it."
_LOOK_TASK = "Which functions does this folder have, and are they tested?"


def _call(name: str, **arguments: object) -> ScriptedCall:
    return ScriptedCall(name, arguments)


_MANIFEST = (
    {"task_id": "module", "objective": _MODULE_TASK, "deliverable": {"type": "file", "path": "degrees.py"}},
    {
        "task_id": "test",
        "objective": _TEST_TASK,
        "deliverable": {"type": "file", "path": "test_degrees.py"},
        "depends_on": ["module"],
    },
)
_PARENT = (
    ScriptedTurn(
        "I am a script, not a model. I take the task apart: one sub-agent writes the module, the next one its test.",
        calls=(_call("decompose", manifest=list(_MANIFEST)),),
    ),
    ScriptedTurn(
        "Both are done. A third one, which can only read, looks at what is there.",
        calls=(_call("explore", question=_LOOK_TASK),),
        expect='"task_id": "test",\n  "success": true',
        otherwise="BLOCKED: the sub-agents should have succeeded; the script goes no further.",
    ),
    ScriptedTurn("Done by **three sub-agents**: `degrees.py`, its test, which passes, and a look at both."),
)
_CHILDREN = (
    (
        _MODULE_TASK,
        (
            ScriptedTurn("", calls=(_call("write", path="degrees.py", content=_MODULE),)),
            ScriptedTurn(
                "", calls=(_call("report_result", status="ok", summary="to_fahrenheit is there.", artifacts=["degrees.py"]),)
            ),
        ),
    ),
    (
        _TEST_TASK,
        (
            ScriptedTurn(
                "", calls=(_call("write", path="test_degrees.py", content=_TEST), _call("shell", command=_TEST_COMMAND))
            ),
            ScriptedTurn(
                "",
                calls=(_call("report_result", status="ok", summary="One test, it passes.", artifacts=["test_degrees.py"]),),
                expect="OK",
                otherwise="BLOCKED: the test should have passed.",
            ),
        ),
    ),
    (
        _LOOK_TASK,
        (
            ScriptedTurn("", calls=(_call("grep", pattern="def "), _call("read", path="test_degrees.py"))),
            ScriptedTurn(
                "",
                calls=(
                    _call(
                        "report_result",
                        status="ok",
                        summary="degrees.py:4 has to_fahrenheit; test_degrees.py:7 holds it with one test.",
                    ),
                ),
            ),
        ),
    ),
)


def agents_scenarios(rate: float = 0.0) -> tuple[Scenario, ...]:
    """Return the conversations of the agent and its sub-agents; `rate` is words a second, 0 as fast as they are taken."""
    children = (_scenario(f"agents: {task}", f"Your task: {task}", turns, rate) for task, turns in _CHILDREN)
    return (*children, _scenario("agents", AGENTS_DEMO_TASK, _PARENT, rate))  # the children are told their parent's task too


def _scenario(name: str, match: str, turns: Iterable[ScriptedTurn], rate: float) -> Scenario:
    return Scenario(
        name=name,
        match=match,
        models=(DEMO_MODEL,),
        window_tokens=8192,
        ending="The script is over. With a real model you would go on from here: `lmtui models` shows what runs.",
        turns=tuple(replace(turn, rate=rate) for turn in turns),
    )
