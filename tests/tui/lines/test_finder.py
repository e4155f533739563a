from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Level
from lmtui.tui.lines.blocks import NoticeBlock
from lmtui.tui.lines.document import Document
from lmtui.tui.lines.page_view import PageView
from lmtui.tui.lines.styled_text import plain
from lmtui.tui.lines.transcript import Transcript
from tests.tui.lines.stage import Stage, settled, until


@given(st.lists(st.text("ab", max_size=6), min_size=1, max_size=20))
def test_every_match_of_a_document_is_gone_to_in_its_order(texts: list[str]) -> None:
    document = Document()
    for text in texts:
        document.append(NoticeBlock(Level.INFO, text))
    places = [place for place in document.find("A") if place is not None]
    assert [index for index, _ in places] == [at for at, text in enumerate(texts) for _ in range(text.count("a"))]
    for place in places:
        assert "a" in plain(document.line(document.line_of(document.reveal(place, "A"))))


async def test_a_search_of_a_long_document_leaves_the_screen_its_time_and_finds_what_came_meanwhile() -> None:
    view = Transcript()
    async with Stage(view).run_test(size=(60, 10)) as pilot:
        for number in range(30_000):
            view.document.append(NoticeBlock(Level.INFO, f"some words {number}"))
        view.search.find("words 29")
        await until(pilot, lambda: bool(view.search.places))
        assert not view.search.is_done
        await until(pilot, lambda: view.search.is_done)
        assert len(view.search.places) == 1 + 10 + 100 + 1000
        view.document.append(NoticeBlock(Level.INFO, "words 29"))
        view.search.go(-1)
        await until(pilot, lambda: view.search.is_done and len(view.search.places) == 1112)


async def test_a_page_is_searched_by_the_same_keys() -> None:
    view = PageView(lambda _: [((f"line {number}", ""),) for number in range(100)])
    async with Stage(view).run_test(size=(40, 10)) as pilot:
        await settled(pilot)
        view.search.find("LINE 7")
        await until(pilot, lambda: view.search.is_done)
        assert "1 of 11" in plain(view.search.note())
        await pilot.press("n")
        assert "line 70" in view.render_line(view.source.line_of((70, 0)) - view.scroll_offset.y).text
        await pilot.press("escape")
        assert not view.search.is_on
