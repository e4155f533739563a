"""What a command did in an overlay, for tests, and moments of looking at it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from lmtui.core.errors import SandboxError
from lmtui.core.workspace import EFFECT_TOOL, EffectKind, EffectPart
from lmtui.tui.modals.effect_question import EffectReviewScreen
from tests.tui.driving import Driver
from tests.tui.fakes import play_work
from tests.tui.scenes_diffs import CHANGE, HUNKS

TODO = """\
--- a/notes/todo.txt
+++ /dev/null
@@ -1,7 +0,0 @@
-release 1.0
-
-- [x] nested comments
-- [ ] column numbers in errors
-- [ ] ask Mara about the wheel name
-
-talk, 12 June
"""
VERSION = "@@ -1 +1 @@\n-VERSION = '0.9.0'\n+VERSION = '1.0.0'\n"
TOKENS = "@@ -0,0 +1,2 @@\n+LEFT = '('\n+RIGHT = ')'\n"
PARTS = (
    EffectPart("dist/parser-0.9.0.tar.gz", EffectKind.DELETED, size_bytes=41_000),
    EffectPart("notes/todo.txt", EffectKind.DELETED, TODO, 1, 0, 7, 1_204, is_tracked=False),
    EffectPart("parser/_version.py", EffectKind.CHANGED, VERSION, 1, 1, 1, 20),
    EffectPart("parser/lexer.py", EffectKind.CHANGED, CHANGE, HUNKS, 5, 4, 9_000),
    EffectPart("docs/reference.md", EffectKind.RENAMED, source="docs/api.md", size_bytes=2_000),
    EffectPart("build/lib/parser/tokens.py", EffectKind.CREATED, TOKENS, 1, 2, 0, 4_000),
    EffectPart("build/logs/", EffectKind.CREATED),
    EffectPart("dist/parser-1.0.0.tar.gz", EffectKind.CREATED, size_bytes=43_000),
)


class FakeReview:
    """An overlay with `found` in it; each keep is noted and takes away what it keeps whole."""

    def __init__(self, found: Sequence[EffectPart] = PARTS, refusal: str = "") -> None:
        self.found, self.refusal = tuple(found), refusal
        self.kept: list[tuple[int, ...] | None] = []
        self.drops: list[str] = []

    async def parts(self) -> Sequence[EffectPart]:
        """Return what is there."""
        return self.found

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        """Note it."""
        if self.refusal:
            raise SandboxError(self.refusal)
        self.kept.append(None if units is None else tuple(units))
        self.found = () if units is None else self.found[:1]
        return ["merged with your changes: parser/lexer.py"]

    async def drop(self) -> None:
        """Note it."""
        self.drops.append("all")


async def effect_review(driver: Driver) -> None:
    """What a session did in its overlay is looked at, a hunk of it dropped."""
    await driver.app.push_screen(EffectReviewScreen(FakeReview(), "Merge", "3 commands"))
    await driver.until_screen("EffectReviewScreen")
    await driver.press("down", "down", "down", "c", "down", "space")


EFFECT = """\
make clean && make dist

deletes dist/parser-0.9.0.tar.gz
deletes notes/todo.txt  +0 -7
cannot be kept: run/server.sock"""
FIELDS: dict[str, Any] = {
    "tool": EFFECT_TOOL,
    "parts": PARTS,
    "hunks": sum(part.hunks for part in PARTS),
    "why": "it ran in an overlay; keeping it would change 7 files, 2 of them deleted",
    "suggested_rule": "",
    "sandbox": "docker, no network",
    "limits": "exit 0 in 8.4 s",
}


async def effect_approval(driver: Driver) -> None:
    """What a command did in an overlay waits for its answer; a deletion that git does not know is marked."""
    play_work(driver.host.session)
    await driver.settle()
    driver.host.session.ask("a1", EFFECT, **FIELDS)
    await driver.until_screen("EffectApproval")
    await driver.press("down")
    await driver.wake()


EFFECT_SCENES = {"approval_effect": effect_approval, "effect_review": effect_review}
