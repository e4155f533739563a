from __future__ import annotations

from lmtui.tui.modals.effect_question import EffectReviewScreen
from tests.tui.driving import WIDE, Driver
from tests.tui.one_app import Cases
from tests.tui.scenes_effects import FakeReview

cases = Cases()

DIFF = "#effect-change"


async def opened(driver: Driver, review: FakeReview) -> list[bool | None]:
    results: list[bool | None] = []
    await driver.app.push_screen(EffectReviewScreen(review, "Merge", "3 commands"), results.append)
    await driver.until_screen("EffectReviewScreen")
    return results


@cases.at(WIDE)
async def deletions_are_undecided_and_everything_else_is_applied_by_one_key(driver: Driver) -> None:
    review = FakeReview()
    results = await opened(driver, review)
    assert "apply 6 · 2 deletions undecided, their files stay" in driver.text()
    await driver.press("y")
    assert review.kept == [(2, 3, 4, 5, 6, 7, 8, 9)]
    assert "Applied 6 of 8 · merged with your changes: parser/lexer.py" in driver.text()
    assert "1 deletion undecided" in driver.text()
    await driver.press("escape")
    assert results == [True]


@cases.at(WIDE)
async def a_hunk_is_skipped_in_the_diff_and_the_rest_of_its_file_applied(driver: Driver) -> None:
    review = FakeReview()
    _ = await opened(driver, review)
    await driver.press("down", "down", "down", "c", "down", "space")
    assert "2 of 3" in driver.text("#effect-list")
    assert "Hunk 2  skip" in driver.text(DIFF)
    await driver.press("escape", "up", "space", "y")
    assert review.kept == [(3, 5, 6, 7, 8, 9)]


@cases.at(WIDE)
async def with_everything_applied_the_page_closes(driver: Driver) -> None:
    review = FakeReview()
    results = await opened(driver, review)
    await driver.press("e", "y")
    assert (review.kept, results) == ([None], [True])


@cases.at(WIDE)
async def a_conflict_is_said_and_nothing_is_applied(driver: Driver) -> None:
    review = FakeReview(refusal="parser/lexer.py was changed meanwhile in the same lines")
    results = await opened(driver, review)
    await driver.press("d", "y")
    assert "changed meanwhile in the same lines" in driver.text()
    await driver.press("escape")
    assert results == [False]


@cases.full(WIDE)
async def drop_all_asks_first_and_there_is_nothing_to_do_without_parts(driver: Driver) -> None:
    review = FakeReview(())
    _ = await opened(driver, review)
    await driver.press("y", "n", "space", "d")
    assert "No changes." in driver.text()
    assert (review.kept, driver.screen_name) == ([], "EffectReviewScreen")
    await driver.press("escape", to="Workbench")
    review = FakeReview()
    results = await opened(driver, review)
    await driver.press("n", "n")
    assert review.drops == []
    await driver.press("n", "y")
    assert review.drops == ["all"]
    assert results == [False]
