"""The script of `lmtui demo`: an agent builds and tests a small package.  The words are ours, the work they cause is real."""

from __future__ import annotations

from dataclasses import replace

from lmtui.providers.scenario import Scenario, ScriptedCall, ScriptedTurn

DEMO_MODEL = "scripted-demo"
PLAN_DEMO_TASK = "Plan a small Python module that counts the words of a text, with a test."
AGENTS_DEMO_TASK = "Have sub-agents write a small Python module for temperatures, with a test."
DEMO_TASK = "Write a small Python package that turns text into slugs, test it, and commit it."

_MODULE = '''"""Turn text into slugs."""

import re


def slugify(text: str) -> str:
    """Return the text in lower case, words joined by single hyphens."""
    return re.sub(r"[^a-z0-9]", "-", text.lower())
'''
_TEST = """import unittest

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


_STOP = "BLOCKED: the demo's script cannot go on, as a call was refused or came out otherwise than it expects: {}"
_TURNS = (
    ScriptedTurn(
        "I am a script, not a model, but the tools and the sandbox are real. First I look around.",
        thinking="A new package: look at the folder, write code and tests, run them, mend, commit.",
        calls=(_call("ls", path="."), _call("git_status")),
    ),
    ScriptedTurn(
        "I keep a short list of what to do.",
        calls=(
            _call("todo_add", description="write slugs/__init__.py"),
            _call("todo_add", description="write tests and see them fail or pass"),
            _call("todo_add", description="commit"),
        ),
    ),
    ScriptedTurn(
        "The package and its tests:",
        calls=(
            _call("write", path=".gitignore", content="__pycache__/\n"),
            _call("write", path="slugs/__init__.py", content=_MODULE),
            _call("write", path="tests/__init__.py", content=""),
            _call("write", path="tests/test_slugs.py", content=_TEST),
            _call("todo_complete", id=1),
        ),
    ),
    ScriptedTurn("Now the tests, in the sandbox.", calls=(_call("shell", command=TEST_COMMAND),)),
    ScriptedTurn(
        "One test fails: several signs in a row give several hyphens, and the ends keep theirs. I read the function again.",
        thinking="The pattern replaces each character by itself. A plus sign and a strip mend both.",
        calls=(_call("read", path="slugs/__init__.py"),),
        expect="FAILED",
        otherwise=_STOP.format("the tests should have failed once."),
    ),
    ScriptedTurn(
        "The pattern needs a `+`, and the ends a `strip`.",
        calls=(_call("edit", path="slugs/__init__.py", search=_OLD, replace=_NEW), _call("shell", command=TEST_COMMAND)),
    ),
    ScriptedTurn(
        "Both pass. I commit.",
        calls=(
            _call("todo_complete", id=2),
            _call("git_add", paths=[".gitignore", "slugs", "tests"]),
            _call("git_commit", message="Add slugify with tests"),
        ),
        expect="OK",
        otherwise=_STOP.format("the tests should have passed now."),
    ),
    ScriptedTurn(
        "Committed.",
        calls=(_call("todo_complete", id=3),),
        expect="committed",
        otherwise=_STOP.format("the commit failed."),
    ),
    ScriptedTurn(
        "Done: `slugs.slugify` turns text into slugs, **two tests** hold it, and it is committed.\n\n"
        "| what | where |\n| --- | --- |\n| code | `slugs/__init__.py` |\n| tests | `tests/test_slugs.py` |\n"
    ),
)


def demo_scenario(rate: float = 0.0) -> Scenario:
    """Return the demo's conversation; `rate` is words a second, 0 as fast as they are taken."""
    return Scenario(
        name="demo",
        models=(DEMO_MODEL,),
        window_tokens=8192,
        ending="The demo's script is over. With a real model you would go on from here: `lmtui models` shows what runs.",
        turns=tuple(replace(turn, rate=rate) for turn in _TURNS),
    )
