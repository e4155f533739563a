"""Moments of changes: approved hunk by hunk, compared with git."""

from __future__ import annotations

from lmtui.core.workspace import FileChange, FileChangeKind
from tests.tui.driving import Driver
from tests.tui.fake_changes import FakeChanges
from tests.tui.fakes import play_work

HUNKS = 3
CHANGE = """\
--- a/parser/lexer.py
+++ b/parser/lexer.py
@@ -12,3 +12,3 @@
 class Lexer:
-    def __init__(self, text: str, depth: int) -> None:
+    def __init__(self, text: str, nesting: int) -> None:
         self.text = text
@@ -41,4 +41,6 @@
     def skip_comment(self):
-        while self.peek(2) != "*/":
-            self.pos += 1
+        depth = 1
+        while depth:
+            if self.take("/*"):
+                depth += 1
         self.pos += 2
@@ -80,2 +82,1 @@
         return found
-        # never reached
"""
NEW = "@@ -0,0 +1,2 @@\n+def test_nested():\n+    assert True\n"
GONE = "@@ -1 +0,0 @@\n-old\n"


async def hunks_approval(driver: Driver) -> None:
    """A change of three hunks: one accepted, the second asked about."""
    play_work(driver.host.session)
    await driver.settle()
    driver.host.session.ask("a1", "edit", tool="edit", diff=CHANGE, path="parser/lexer.py", hunks=HUNKS)
    await driver.until_screen("HunkApproval")
    driver.host.clock.forward(1)
    await driver.press("y")
    await driver.wake()


async def with_changes(driver: Driver) -> None:
    """Two turns that changed files, and what git knows beside them."""
    session = driver.host.session
    changes = FakeChanges(session)
    lexer = FileChange("parser/lexer.py", FileChangeKind.MODIFIED, 5, 4, CHANGE)
    test = FileChange("parser/tests/test_lexer.py", FileChangeKind.ADDED, 2, 0, NEW)
    for words, tool, changed in (
        ("Make the tokenizer accept nested comments and add tests.", "edit", (lexer, test)),
        ("Drop the old notes.", "shell", (FileChange("NOTES.md", FileChangeKind.DELETED, 0, 1, GONE),)),
    ):
        session.begin_turn(words)
        session.start_call(words, tool, changed[0].path)
        session.finish_call(words, tool, summary="+5 −4", decision="once")
        changes.add(words, tool, changed[0].path, *changed)
        session.end_turn()
        driver.host.clock.forward(300)
    driver.host.files.differences = [lexer, test, FileChange("docs/漢字.md", FileChangeKind.ADDED, 2, 0, NEW)]
    await driver.press("f10", to="ChangesScreen")


async def changes_against_git(driver: Driver) -> None:
    """What differs from the last commit."""
    await with_changes(driver)
    await driver.press("right", "right")
    await driver.press("down", "r")


DIFF_SCENES = {"approval_hunks": hunks_approval, "changes_against_git": changes_against_git}
