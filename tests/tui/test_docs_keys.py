from __future__ import annotations

from docs.make_keys import PAGE, page
from lmtui.tui.commands import COMMANDS


def test_the_page_of_keys_is_what_the_table_gives() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_command_stands_on_the_page_of_keys_once() -> None:
    rows = [line.split(" | ")[0].strip("| `") for line in page().splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(each.id for each in COMMANDS)
