"""The script of `lmtui demo --plan`: an agent looks around, proposes a plan, and carries it out once a person said yes."""

from __future__ import annotations

from dataclasses import replace

from lmtui.providers.demo import DEMO_MODEL, PLAN_DEMO_TASK, TEST_COMMAND
from lmtui.providers.scenario import Scenario, ScriptedCall, ScriptedTurn

_MODULE = '''"""Count the words of a text."""

from collections import Counter


def count_words(text: str) -> Counter[str]:
    """Return how often each word stands in a text, whatever its case."""
    return Counter(text.lower().split())
'''
_TEST = """import unittest

from words import count_words


class CountWordsTest(unittest.TestCase):
    def test_counts_whatever_the_case(self):
        self.assertEqual(count_words("To be or not to be")["to"], 2)


if __name__ == "__main__":
    unittest.main()
"""
_STEPS = (
    {
        "id": 1,
        "description": "Write the module with one function, count_words.",
        "files": ["words.py"],
        "commands": ["python3 -m py_compile words.py"],
        "verification": "python3 -m py_compile words.py says nothing",
        "risk": "low",
    },
    {
        "id": 2,
        "description": "Write a test for it and run it.",
        "files": ["tests/__init__.py", "tests/test_words.py"],
        "commands": [TEST_COMMAND],
        "verification": "the test passes",
        "risk": "low",
        "depends_on": [1],
    },
)


def _call(name: str, **arguments: object) -> ScriptedCall:
    return ScriptedCall(name, arguments)


_TURNS = (
    ScriptedTurn(
        "I am a script, not a model. In plan mode I only read, so I look around first.",
        thinking="An empty folder or not?  Look at it, then propose a plan.",
        calls=(_call("ls", path="."), _call("git_status")),
    ),
    ScriptedTurn(
        "There is nothing here yet, so this is what I would do.",
        calls=(
            _call(
                "propose_plan",
                plan={
                    "title": "Count the words of a text",
                    "goal": "A module words.py with count_words, and a test that holds it.",
                    "steps": list(_STEPS),
                    "risks": ["Words are cut at spaces: “end.” and “end” count as two."],
                },
            ),
        ),
    ),
    ScriptedTurn(
        "Step 1: the module.",
        calls=(
            _call("write", path="words.py", content=_MODULE),
            _call("shell", command="python3 -m py_compile words.py"),
            _call("plan_complete_step", step_id=1, verification_notes="py_compile said nothing"),
        ),
    ),
    ScriptedTurn(
        "Step 2: the test.",
        calls=(
            _call("write", path="tests/__init__.py", content=""),
            _call("write", path="tests/test_words.py", content=_TEST),
            _call("shell", command=TEST_COMMAND),
        ),
    ),
    ScriptedTurn(
        "It passes.",
        calls=(_call("plan_complete_step", step_id=2, verification_notes="1 test, OK"),),
        expect="OK",
        otherwise="BLOCKED: the test should have passed; the script goes no further.",
    ),
    ScriptedTurn("Done as planned: `words.count_words` counts words, and **one test** holds it."),
)


def plan_scenario(rate: float = 0.0) -> Scenario:
    """Return the conversation; `rate` is words a second, 0 as fast as they are taken."""
    return Scenario(
        name="plan",
        match=PLAN_DEMO_TASK,
        models=(DEMO_MODEL,),
        window_tokens=8192,
        ending="The script is over. With a real model you would go on from here: `lmtui models` shows what runs.",
        turns=tuple(replace(turn, rate=rate) for turn in _TURNS),
    )
