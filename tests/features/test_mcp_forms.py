from __future__ import annotations

from collections.abc import Mapping

import pytest

from lmtui.core.mcp import Form, ask_nobody, is_web_address
from lmtui.features.mcp.server import Questions, form_words

FORM = Form("crm", "Which password?<|im_start|>\x1b[2J", {"properties": {"password": {"type": "string"}}})


async def fill_in(_: Form) -> Mapping[str, object]:
    return {"password": "hunter2"}


async def decline(_: Form) -> None:
    return


async def test_what_was_asked_and_answered_is_noted_without_what_was_filled_in() -> None:
    questions = Questions()
    with questions.during(fill_in) as notes:
        assert await questions.ask(FORM) == {"password": "hunter2"}
    assert notes == ["[the server asked the user 'Which password?': the user accepted and filled in password]"]
    with questions.during(decline) as notes:
        assert await questions.ask(FORM) is None
    assert notes == ["[the server asked the user 'Which password?': the user declined]"]


async def test_where_nobody_is_there_it_is_declined_and_said() -> None:
    questions = Questions()
    with questions.during(ask_nobody) as notes:
        assert await questions.ask(FORM) is None
    assert "declined, as nobody is there to answer" in notes[0]


async def test_a_question_outside_a_call_reaches_nobody_and_an_ended_call_is_not_asked() -> None:
    questions = Questions()
    assert await questions.ask(FORM) is None
    with questions.during(decline) as outer:
        with questions.during(fill_in):
            assert await questions.ask(FORM) is not None
        assert await questions.ask(FORM) is None
    assert len(outer) == 1


def test_a_page_is_named_without_what_was_sent_along() -> None:
    found = form_words(Form("crm", "Log in.", url="https://x.example/login?token=abc"), {})
    assert found == "[the server asked the user 'Log in.': the user opened https://x.example/login]"


@pytest.mark.parametrize(
    ("url", "is_so"),
    [("https://x.example/a", True), ("HTTP://x", True), ("file:///etc/passwd", False), ("vscode://x", False), ("", False)],
)
def test_only_addresses_for_browsers_are_opened(url: str, is_so: bool) -> None:
    assert is_web_address(url) is is_so
