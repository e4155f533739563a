"""Moments of changes: approved hunk by hunk, compared with git."""

from __future__ import annotations

from lmtui.tui.modals.hunks import HunkApproval
from tests.tui.driving import Driver
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


async def hunks_approval(driver: Driver) -> None:
    """A change of three hunks: one accepted, the second asked about."""
    play_work(driver.host.session)
    await driver.settle()
    driver.host.session.ask("a1", "edit", tool="edit", diff=CHANGE, path="parser/lexer.py", hunks=HUNKS)
    await driver.until_screen("HunkApproval")
    await driver.settle()
    driver.host.clock.forward(1)
    await driver.press("y")
    driver.host.clock.forward(1)
    screen = driver.app.screen
    assert isinstance(screen, HunkApproval)
    await driver.until(lambda: "hunks.yes" not in screen.dimmed())
    await driver.pilot.pause(0.4)


DIFF_SCENES = (("approval_hunks", hunks_approval),)
