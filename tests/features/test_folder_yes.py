from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.errors import ConfigError
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import FolderConsent, FolderContent, replace_file
from tests.sets import for_each
from tests.trusting import say

ITEM = TrustItem("hook", "hooks.json", "Stop: true")
ONE, TWO = (TrustItem("hook", "hooks.json", "Stop: true", digest) for digest in ("one", "two"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


class Folder:
    def __init__(self, path: Path) -> None:
        self.brought = FolderContent((ITEM,), "one")
        self.yes = FolderConsent(path, "hooks", lambda: self.brought)
        self.other = FolderConsent(path, "commands", lambda: self.brought)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_what_was_not_asked_about_waits_and_holds_once_answered(folder: Folder) -> None:
    assert (folder.yes.waiting(), folder.yes.holds("one"), folder.yes.answered_elsewhere()) == ((ONE,), False, None)
    say(folder.yes, is_trusted=True)
    assert (folder.yes.waiting(), folder.yes.holds("one"), folder.yes.answered_elsewhere()) == ((), True, True)
    elsewhere = FolderConsent(Path("/elsewhere"), "hooks", lambda: folder.brought)
    assert (folder.other.waiting(), elsewhere.waiting()) == ((ONE,), (ONE,))


def test_a_change_asks_again_a_no_can_be_taken_back_and_nothing_brought_is_nothing_asked(folder: Folder) -> None:
    say(folder.yes, is_trusted=True)
    folder.brought = FolderContent((ITEM,), "two")
    assert (folder.yes.waiting(), folder.yes.holds("two"), folder.yes.holds("one")) == ((TWO,), False, True)
    say(folder.yes, is_trusted=False)
    assert (folder.yes.waiting(), folder.yes.refused(), folder.yes.answered_elsewhere()) == ((), (TWO,), False)
    say(folder.yes, is_trusted=True)
    assert (folder.yes.refused(), folder.yes.holds("two"), folder.yes.holds("one")) == ((), True, False)
    folder.brought = FolderContent()
    say(folder.yes, is_trusted=True)
    assert (folder.yes.waiting(), folder.yes.refused(), folder.yes.holds("")) == ((), (), False)


@for_each("text", ["{", "[]", '{"hooks": 3}', '{"hooks": {"/": 3}}'])
def test_a_file_of_answers_that_cannot_be_read_trusts_nothing(folder: Folder, home: Path, text: str) -> None:
    (home / "state").mkdir(parents=True, exist_ok=True)
    (home / "state" / "brought.json").write_text(text)
    assert (folder.yes.holds("one"), folder.yes.waiting()) == (False, (ONE,))
    say(folder.yes, is_trusted=True)
    assert folder.yes.holds("one")


def test_what_changed_behind_the_same_words_is_not_what_was_shown(folder: Folder) -> None:
    shown = folder.yes.waiting()
    folder.brought = FolderContent((ITEM,), "two")
    with pytest.raises(ConfigError, match="changed meanwhile"):
        folder.yes.answer(shown, is_trusted=True)
    assert (folder.yes.holds("one"), folder.yes.holds("two"), folder.yes.waiting()) == (False, False, (TWO,))


def test_a_file_is_for_its_owner_alone_and_no_draft_is_left(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.json"
    replace_file(file, "one")
    file.chmod(0o644)
    replace_file(file, "two")
    assert (file.read_text(), file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == ("two", 0o600, 0o700)
    with pytest.raises(UnicodeEncodeError):
        replace_file(file, "\ud800")
    assert (file.read_text(), list(file.parent.iterdir())) == ("two", [file])
