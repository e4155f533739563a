from __future__ import annotations

from dataclasses import replace
from difflib import unified_diff
from unicodedata import category

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmtui.tools.edit_file import accept
from lmtui.tools.text import describe_change, hunk_count
from lmtui.tui.lines.diff_layout import changed_ranges
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.patch import FilePatch, changed_lines, divided, parse_patch
from tests.tui.lines.stage import Stage, screen_lines, settled

DIFF = """\
diff --git a/parser/lexer.py b/parser/lexer.py
--- a/parser/lexer.py
+++ b/parser/lexer.py
@@ -41,4 +41,5 @@ class Lexer
 def skip(self):
-    while self.peek(2):
+    depth = 1
+    while self.depth(2):
     return
\\ No newline at end of file
@@ -90,2 +91,1 @@
 end
-gone
"""


async def test_long_and_hostile_lines_are_folded_never_cut() -> None:
    view = DiffView()
    async with Stage(view).run_test(size=(40, 20)) as pilot:
        view.show_patches((patch_of("a.txt", [], ["x" * 100 + "\u202e\x1b[2J\x07end"]),))
        await settled(pilot)
        assert [line.strip()[:1] for line in screen_lines(view)[1:4]] == ["↪"] * 3
        text = "".join(line[10:] for line in screen_lines(view))
        assert text.replace(" ", "") == "x" * 100 + "<U+202E>\u241b[2J\u2407end"


def test_several_files_and_binaries_are_read() -> None:
    added = "diff --git a/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+one\n"
    files = parse_patch(DIFF + added + "diff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ\n")
    assert [(each.path, *changed_lines([each])) for each in files[:2]] == [("parser/lexer.py", 2, 2), ("x", 1, 0)]
    assert files[2].note == "binary"
    (patch,) = parse_patch("Binary files differ", "a\x1b[2Jb")
    assert patch.path == "ab", "it cannot steer the terminal"
    assert parse_patch(f"@@ -{'9' * 5000} +1 @@\n+x\n") == ()


LINES = st.lists(st.sampled_from(["a", "b", "", "  c", "d|e", "-x", "+y", "@@"]), max_size=25)


def patch_of(path: str, old: list[str], new: list[str]) -> FilePatch:
    (file,) = parse_patch("\n".join(unified_diff(old, new, lineterm="")), path)
    return file


@settings(deadline=None)
@given(LINES, LINES)
def test_a_patch_says_where_its_hunks_are(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old).splitlines(), "\n".join(new).splitlines()
    if before != after:
        at = 0
        for hunk in patch_of("x", before, after).hunks:
            at += hunk.skipped
            was = [line.text for line in hunk.lines if line.sign != "+"]
            assert before[at : at + len(was)] == was
            at += len(was)


@settings(deadline=None)
@given(st.text(max_size=400))
@example("-a\x07b\n+c\u2028d\n e\x1b[31m\n")
def test_any_text_is_read_as_a_patch_without_a_fault(text: str) -> None:
    files = parse_patch("@@ -1,3 +1,2 @@\n-old\n" + text)
    shown = [line.text for file in files for hunk in file.hunks for line in hunk.lines]
    assert shown[0] == "old"
    assert not {"Cc", "Zl", "Zp"} & set(map(category, "".join(shown)))


@settings(deadline=None)
@given(LINES, LINES, st.sampled_from(["", "\n"]), st.sampled_from(["", "\n"]))
def test_hunks_to_choose_are_those_that_are_applied_and_hide_nothing(
    old: list[str], new: list[str], old_end: str, new_end: str
) -> None:
    was, is_now = "\n".join(old) + old_end, "\n".join(new) + new_end
    for patch in parse_patch(describe_change("a.txt", was, is_now).diff):
        fine = divided(patch)
        assert [line for hunk in fine.hunks for line in hunk.lines] == [line for hunk in patch.hunks for line in hunk.lines]
        assert len(fine.hunks) == hunk_count(was, is_now)
        for number, hunk in enumerate(fine.hunks):
            applied, _ = accept("a.txt", was, is_now, {number})
            (only,) = parse_patch(describe_change("a.txt", was, applied).diff)
            assert changed_lines([only]) == changed_lines([replace(fine, hunks=(hunk,))])


def test_only_the_words_that_differ_are_marked() -> None:
    assert changed_ranges("while self.peek(2):", "while self.depth(2):") == ((11, 15),)
    assert changed_ranges("abc", "xyz") == ()
    assert changed_ranges("same", "same and more") == ()
    assert changed_ranges("same and more", "same") == ((4, 13),)


@settings(deadline=None)
@given(st.text("ab (漢\t", max_size=60), st.text("ab (漢\t", max_size=60))
def test_marked_words_are_in_order_and_inside(text: str, other: str) -> None:
    flat = [at for pair in changed_ranges(text, other) for at in pair]
    assert flat == sorted(flat)
    assert all(0 <= at <= len(text) for at in flat)
