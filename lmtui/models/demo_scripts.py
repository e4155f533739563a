"""The script of `lmtui demo`: an agent builds and tests a small package.  The words are ours, the work they cause is real."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum


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

    @property
    def arguments_text(self) -> str:
        """Return the arguments as they are sent."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


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

_DEMO_MODULE = '''"""Turn text into slugs."""

import re


def slugify(text: str) -> str:
    """Return the text in lower case, words joined by single hyphens."""
    return re.sub(r"[^a-z0-9]", "-", text.lower())
'''
_DEMO_TEST = """import unittest

from slugs import slugify


class SlugifyTest(unittest.TestCase):
    def test_joins_words(self):
        self.assertEqual(slugify("Hello World"), "hello-world")

    def test_squeezes_what_is_no_letter(self):
        self.assertEqual(slugify("  Hello,   World!  "), "hello-world")


if __name__ == "__main__":
    unittest.main()
"""
_OLD = '    return re.sub(r"[^a-z0-9]", "-", text.lower())'
_NEW = '    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")'
TEST_COMMAND = "python3 -m unittest discover -s tests -t . -v"
DEMO_RULES = (f"Shell({TEST_COMMAND})",)  # for a sandbox that asks for each command, where nobody is there to be asked


def _call(name: str, **arguments: object) -> ScriptedCall:
    return ScriptedCall(name, arguments)


def _turn(text: str, *calls: ScriptedCall, thinking: str = "", expect: str = "", otherwise: str = "") -> ScriptedTurn:
    return ScriptedTurn(text, thinking, calls, expect=expect, otherwise=otherwise)


_STOP = "BLOCKED: the demo's script cannot go on, as a call was refused or came out otherwise than it expects: {}"
_AGENTS_DEMO_TURNS = (
    _turn(
        "I am a script, not a model, but the tools and the sandbox are real. First I look around.",
        _call("ls", path="."),
        _call("git_status"),
        thinking="A new package: look at the folder, write code and tests, run them, fix, commit.",
    ),
    _turn(
        "I keep a short list of what to do.",
        _call("todo_add", description="write slugs/__init__.py"),
        _call("todo_add", description="write tests and see them fail or pass"),
        _call("todo_add", description="commit"),
    ),
    _turn(
        "The package and its tests:",
        _call("write", path=".gitignore", content="__pycache__/\n"),
        _call("write", path="slugs/__init__.py", content=_DEMO_MODULE),
        _call("write", path="tests/__init__.py", content=""),
        _call("write", path="tests/test_slugs.py", content=_DEMO_TEST),
        _call("todo_complete", id=1),
    ),
    _turn("Now the tests, in the sandbox.", _call("shell", command=TEST_COMMAND)),
    _turn(
        "One test fails: several signs in a row give several hyphens, and the ends keep theirs. I read the function again.",
        _call("read", path="slugs/__init__.py"),
        thinking="The pattern replaces each character by itself. A plus sign and a strip fix both.",
        expect="FAILED",
        otherwise=_STOP.format("the tests should have failed once."),
    ),
    _turn(
        "The pattern needs a `+`, and the ends a `strip`.",
        _call("edit", path="slugs/__init__.py", search=_OLD, replace=_NEW),
        _call("shell", command=TEST_COMMAND),
    ),
    _turn(
        "Both pass. Next, a command writes a page about it. It runs in an overlay first, and you see what it changed.",
        _call("todo_complete", id=2),
        _call("shell", command="python3 -m pydoc slugs > SLUGS.txt"),
        expect="OK",
        otherwise=_STOP.format("the tests should have passed now."),
    ),
    _turn(
        "I commit.",
        _call("git_add", paths=["."]),
        _call("git_commit", message="Add slugify with tests"),
    ),
    _turn("Committed.", _call("todo_complete", id=3), expect="committed", otherwise=_STOP.format("the commit failed.")),
    _turn(
        "Done: `slugs.slugify` turns text into slugs, **two tests** hold it, and it is committed.\n\n"
        "| what | where |\n| --- | --- |\n| code | `slugs/__init__.py` |\n| tests | `tests/test_slugs.py` |\n"
    ),
)


def demo_scenario(rate: float = 0.0) -> Scenario:
    """Return the demo's conversation; `rate` is words a second, 0 as fast as they are taken."""
    return _scenario("demo", "", _AGENTS_DEMO_TURNS, rate)


_TEST_COMMAND = "python3 -m unittest -v test_degrees"
_AGENTS_DEMO_MODULE = '''"""Degrees of one scale in another."""


def to_fahrenheit(celsius: float) -> float:
    """Return degrees Celsius in Fahrenheit."""
    return celsius * 9 / 5 + 32
'''
_AGENTS_DEMO_TEST = """import unittest

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
    _turn(
        "I am a script, not a model. I take the task apart: one sub-agent writes the module, the next one its test.",
        _call("decompose", manifest=list(_MANIFEST)),
    ),
    _turn(
        "Both are done. A third one, which can only read, looks at what is there.",
        _call("explore", question=_LOOK_TASK),
        expect='"task_id": "test",\n  "success": true',
        otherwise="BLOCKED: the sub-agents should have succeeded; the script goes no further.",
    ),
    _turn("Done by **three sub-agents**: `degrees.py`, its test, which passes, and a look at both."),
)
_CHILDREN = (
    (
        _MODULE_TASK,
        (
            _turn("", _call("write", path="degrees.py", content=_AGENTS_DEMO_MODULE)),
            _turn("", _call("report_result", status="ok", summary="to_fahrenheit is there.", artifacts=["degrees.py"])),
        ),
    ),
    (
        _TEST_TASK,
        (
            _turn("", _call("write", path="test_degrees.py", content=_AGENTS_DEMO_TEST), _call("shell", command=_TEST_COMMAND)),
            _turn(
                "",
                _call("report_result", status="ok", summary="One test, it passes.", artifacts=["test_degrees.py"]),
                expect="OK",
                otherwise="BLOCKED: the test should have passed.",
            ),
        ),
    ),
    (
        _LOOK_TASK,
        (
            _turn("", _call("grep", pattern="def "), _call("read", path="test_degrees.py")),
            _turn(
                "",
                _call(
                    "report_result",
                    status="ok",
                    summary="degrees.py:4 has to_fahrenheit; test_degrees.py:7 holds it with one test.",
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


_MODULE = '''"""Count the words of a text."""

from collections import Counter


def count_words(text: str) -> Counter[str]:
    """Return how often each word occurs in a text, whatever its case."""
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


_TURNS = (
    _turn(
        "I am a script, not a model. In plan mode I only read, so I look around first.",
        _call("ls", path="."),
        _call("git_status"),
        thinking="An empty folder or not?  Look at it, then propose a plan.",
    ),
    _turn(
        "There is nothing here yet, so this is what I would do.",
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
    _turn(
        "Step 1: the module.",
        _call("write", path="words.py", content=_MODULE),
        _call("shell", command="python3 -m py_compile words.py"),
        _call("plan_complete_step", step_id=1, verification_notes="py_compile said nothing"),
    ),
    _turn(
        "Step 2: the test.",
        _call("write", path="tests/__init__.py", content=""),
        _call("write", path="tests/test_words.py", content=_TEST),
        _call("shell", command=TEST_COMMAND),
    ),
    _turn(
        "It passes.",
        _call("plan_complete_step", step_id=2, verification_notes="1 test, OK"),
        expect="OK",
        otherwise="BLOCKED: the test should have passed; the script goes no further.",
    ),
    _turn("Done as planned: `words.count_words` counts words, and **one test** holds it."),
)


def plan_scenario(rate: float = 0.0) -> Scenario:
    """Return the conversation; `rate` is words a second, 0 as fast as they are taken."""
    return _scenario("plan", PLAN_DEMO_TASK, _TURNS, rate)
