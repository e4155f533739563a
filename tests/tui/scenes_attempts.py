"""Moments of the page of attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lmtui.core.events import TurnEnded, TurnReason
from lmtui.core.verification import CheckOutcome, Rung
from lmtui.core.workspace import CommandEffect, FileChange, FileChangeKind
from lmtui.features.attempt_values import Attempt, AttemptState
from tests.tui.driving import Driver
from tests.tui.fakes import START, play_work

DEPTH = """\
--- a/parser/lexer.py
+++ b/parser/lexer.py
@@ -41,5 +41,12 @@
     def skip_comment(self) -> None:
-        while self.peek(2) != "*/":
+        depth = 1
+        while depth:
+            if self.take("/*"):
+                depth += 1
+            elif self.take("*/"):
+                depth -= 1
+            elif self.at_end():
+                raise LexError(self.pos)
             self.pos += 1

     def read_string(self) -> Token:
"""
STACK = """\
--- a/parser/lexer.py
+++ b/parser/lexer.py
@@ -41,5 +41,11 @@
     def skip_comment(self) -> None:
-        while self.peek(2) != "*/":
-            self.pos += 1
+        stack: list[int] = [self.pos]
+        while stack:
+            token = self.next_raw()
+            match token.kind:
+                case Kind.OPEN:
+                    stack.append(token.pos)
+                case Kind.CLOSE:
+                    stack.pop()

     def read_string(self) -> Token:
"""
TESTS = """\
--- /dev/null
+++ b/tests/test_comments.py
@@ -0,0 +1,3 @@
+from parser.lexer import lex, LexError
+
+def test_nested() -> None:
"""
GREEN = {Rung.PARSE: CheckOutcome.PASSED, Rung.LINT: CheckOutcome.PASSED, Rung.SUITE: CheckOutcome.PASSED}


def effect(diff: str, added: int, removed: int, *, has_tests: bool = True) -> CommandEffect:
    lexer = FileChange("parser/lexer.py", FileChangeKind.MODIFIED, added, removed, diff)
    tests = FileChange("tests/test_comments.py", FileChangeKind.ADDED, 3, 0, TESTS)
    return CommandEffect("before", "after", (lexer, tests) if has_tests else (lexer,))


def over(number: int, model: str, temperature: float, found: CommandEffect) -> Attempt:
    end = TurnEnded(turn_id="t", reason=TurnReason.DONE, exit_code=0, verified="green", status="done")
    session, done = f"2026031{number}_140200_abc12{number}", AttemptState.OVER
    return Attempt(number, model, temperature, session, done, GREEN, 0, 31_200, START, 130.0, end, found)


def some_attempts() -> list[Attempt]:
    red = {**GREEN, Rung.LINT: CheckOutcome.FAILED, Rung.SUITE: CheckOutcome.FAILED}
    end = TurnEnded(turn_id="t", reason=TurnReason.DONE, exit_code=2, verified="red", status="unfinished")
    third = over(3, "devstral-24b", 0.2, effect(DEPTH, 22, 9, has_tests=False))
    return [
        replace(over(1, "qwen3-coder-30b", 0.2, effect(STACK, 88, 31)), tokens=44_000, elapsed_s=222.0),
        over(2, "qwen3-coder-30b", 0.7, effect(DEPTH, 41, 6)),
        replace(third, checks=red, failing=3, tokens=18_900, end=end),
        replace(over(4, "qwen3-14b", 0.7, effect(STACK, 57, 12)), tokens=20_300, elapsed_s=115.0),
    ]


def working() -> list[Attempt]:
    first, second, *_ = some_attempts()
    checks = {Rung.PARSE: CheckOutcome.PASSED}
    started = START - timedelta(seconds=75)
    third = Attempt(3, "devstral-24b", 0.2, "s3", AttemptState.RUNNING, checks, 0, 8_100, started)
    return [first, second, third, Attempt(4, "", 0.7)]


async def attempts(driver: Driver) -> None:
    """Four attempts are over."""
    play_work(driver.host.session)
    driver.host.extensions.attempts.task = "Make the tokenizer accept nested comments, and add tests."
    driver.host.extensions.attempts.show(some_attempts())
    await driver.type("/attempts", "AttemptList")
    await driver.press("home")


ATTEMPT_SCENES = {"attempts": attempts}
