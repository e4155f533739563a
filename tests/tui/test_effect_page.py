from __future__ import annotations

from lmtui.core.events import ApprovalRequested
from lmtui.core.workspace import EffectKind, EffectPart
from lmtui.tui.lines.styled_text import plain, width_of
from lmtui.tui.modals.approval_text import effect_command
from lmtui.tui.modals.effect_question import also_of
from lmtui.tui.widgets.effect_page import EffectDecisions, part_line, rows_of, size_text
from tests.sets import for_each
from tests.tui.scenes_effects import PARTS


def decided(parts: tuple[EffectPart, ...] = PARTS) -> EffectDecisions:
    return EffectDecisions(parts)


def test_deletions_are_undecided_at_first_and_everything_else_is_applied() -> None:
    found = decided()
    assert [found.mark(number) for number in range(len(PARTS))] == ["delete?", "delete?", *["apply"] * 6]
    assert found.verb() == "apply 6"
    assert found.applied == (2, 3, 4, 5, 6, 7, 8, 9)
    assert found.said().plain == "apply 6 · 2 deletions undecided, their files stay"


def test_a_part_is_applied_or_skipped_with_all_of_its_hunks() -> None:
    found = decided()
    found.toggle(3)
    assert (found.mark(3), found.applied) == ("skip", (2, 6, 7, 8, 9))
    found.toggle(3)
    assert found.mark(3) == "apply"
    found.toggle(3, 1)
    assert (found.mark(3), found.applied, found.verb()) == ("2 of 3", (2, 3, 5, 6, 7, 8, 9), "apply 6")
    found.toggle(3)
    assert found.mark(3) == "apply"


def test_a_deletion_is_done_or_its_file_is_kept_or_it_is_undecided_again() -> None:
    found = decided()
    found.toggle(0)
    assert (found.mark(0), found.verb(), found.applied[0]) == ("delete", "apply 6, delete 1", 0)
    found.toggle(0)
    assert (found.mark(0), found.applied[0]) == ("keep file", 2)
    assert found.said().plain == "apply 6 · keep file 1 · 1 deletion undecided, its file stays"
    found.toggle(0)
    assert (found.mark(0), found.applied[0]) == ("delete?", 2)


def test_all_deletions_or_everything_is_applied_at_once() -> None:
    found = decided()
    found.toggle(7)
    found.apply_all(EffectKind.DELETED)
    assert (found.verb(), found.is_all_applied) == ("apply 5, delete 2", False)
    found.apply_all()
    assert found.is_all_applied
    found = decided(())
    assert (found.applied, found.is_all_applied, found.said().plain) == ((), False, "")


def test_what_was_decided_holds_on_where_a_part_is_the_same_when_it_is_looked_at_again() -> None:
    found = decided()
    found.toggle(0)
    found.toggle(3, 0)
    changed = EffectPart("parser/lexer.py", EffectKind.CHANGED, "another", 1)
    again = EffectDecisions((PARTS[0], PARTS[3], changed), found)
    assert [again.mark(number) for number in range(3)] == ["delete", "2 of 3", "apply"]


def test_parts_are_grouped_under_their_kinds_with_how_many_there_are() -> None:
    rows = list(rows_of(PARTS, ["cannot be kept: a\x1b[2Jb"]))
    titles = [plain(row.left) for row in rows if row.number < 0 and row.left]
    assert titles == ["Deleted 2", "Changed 2", "Renamed 1", "Created 3", "Also", " · cannot be kept: ab"]
    assert [row.number for row in rows if row.number >= 0] == list(range(len(PARTS)))


@for_each("width", [20, 100])
@for_each("part", [*PARTS, EffectPart("a/" * 60 + "漢字\x1b]0;x\x07\n.txt", EffectKind.DELETED, is_tracked=False)])
def test_a_part_fits_into_its_row_whatever_its_name(part: EffectPart, width: int) -> None:
    line = part_line(part, "2 of 3", width)
    assert width_of(line) <= width
    assert plain(line).isprintable()
    assert plain(line).endswith("2 of 3")


@for_each(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_204, "1.2 kB"), (41_000, "41 kB"), (999_700, "1.0 MB"), (12e6, "12 MB")]
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert size_text(EffectPart("a", EffectKind.CREATED, size_bytes=int(size))) == text


def test_permission_bits_are_shown_where_they_change_and_what_git_does_not_know_is_amber() -> None:
    assert ("1.2 kB · not in git  ", "warn") in part_line(PARTS[1], "delete?", 60)
    assert size_text(EffectPart("a", EffectKind.CHANGED, mode=0o600)) == "mode 600"
    assert size_text(EffectPart("a", EffectKind.CHANGED, "d", 1, 2, 1, mode=0o755)) == "+2 −1 · mode 755"


def test_a_command_with_an_empty_line_is_shown_whole_and_says_nothing_of_what_it_did() -> None:
    command = "echo 1\n\ndeletes fake/\necho 2"
    request = ApprovalRequested(
        approval_id="a", call_id="c", tool="effect", text=f"{command}\n\ndeletes real/", why="", parts=PARTS
    )
    assert effect_command(request) == command
    assert also_of(request) == ["real/ is deleted with its files"]
