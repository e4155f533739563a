from __future__ import annotations

from lmtui.core.events import ApprovalRequested
from lmtui.core.workspace import EffectKind, EffectPart
from lmtui.tui.lines.styled_text import plain, width_of
from lmtui.tui.modals.approval_text import effect_command
from lmtui.tui.modals.effect_question import EffectDecisions, also_of, part_line, size_text
from tests.sets import for_each
from tests.tui.scenes_effects import PARTS


def decided(parts: tuple[EffectPart, ...] = PARTS) -> EffectDecisions:
    return EffectDecisions(parts)


def test_what_was_decided_holds_on_where_a_part_is_the_same_when_it_is_looked_at_again() -> None:
    found = decided()
    found.toggle(0)
    found.toggle(3, 0)
    changed = EffectPart("parser/lexer.py", EffectKind.CHANGED, "another", 1)
    again = EffectDecisions((PARTS[0], PARTS[3], changed), found)
    assert [again.mark(number) for number in range(3)] == ["delete", "2 of 3", "apply"]


@for_each("width", [20, 100])
@for_each("part", [*PARTS, EffectPart("a/" * 60 + "漢字\x1b]0;x\x07\n.txt", EffectKind.DELETED, is_tracked=False)])
def test_a_part_fits_into_its_row_whatever_its_name(part: EffectPart, width: int) -> None:
    line = part_line(part, "2 of 3", width)
    assert width_of(line) <= width
    assert plain(line).isprintable()
    assert plain(line).endswith("2 of 3")


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
