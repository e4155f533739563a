from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lmtui.tui.wording import age_text, duration_text, folder_text, tokens_text, window_text
from tests.sets import for_each
from tests.tui.fakes import START


@for_each(("text", "expected"), [
    (tokens_text(950), "950"), (tokens_text(3120), "3.1k"), (tokens_text(32768), "33k"), (window_text(32768), "32k"),
    (window_text(200_000), "200k"), (window_text(131_072), "128k"), (duration_text(0.4), "0 s"),
    (duration_text(60), "1 min"), (duration_text(90_000), "1 d"), (age_text(START, START + timedelta(seconds=4)), "now"),
    (age_text(START, START + timedelta(seconds=120)), "2 min"), (folder_text(Path("/srv"), Path("/home/ada")), "/srv"),
    (folder_text(Path("/home/ada/src"), Path("/home/ada")), "~/src"),
])  # fmt: skip
def test_numbers_times_and_folders_have_short_words(text: str, expected: str) -> None:
    assert text == expected
