from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.core.errors import ConfigError
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import FolderConsent, FolderTrust, trusted_folders
from lmtui.store.state_files import write_whole
from tests.sets import for_each
from tests.trusting import say

ONE, TWO = (TrustItem("hook", "hooks.json", "Stop: true", digest) for digest in ("one", "two"))


HOOK = TrustItem("hook", "hooks.json", "Stop: true")


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


class Folder:
    def __init__(self, path: Path) -> None:
        self.brought, self.told = [ONE], list[str]()
        self.consent = self.of(path)
        self.yes, self.other = FolderTrust(self.consent), FolderTrust(self.of(path, "commands"))

    def of(self, path: Path | None, kind: str = "hooks") -> FolderConsent:
        told = self.told.append
        return FolderConsent(path, kind, lambda: self.brought, lambda: told(kind), lambda: told(f"no {kind}"))

    def holds(self, *digests: str) -> list[bool]:
        return [self.consent.holds(digest) for digest in digests]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_what_was_not_asked_about_waits_and_holds_once_answered(folder: Folder, tmp_path: Path) -> None:
    assert (folder.yes.waiting(), folder.holds("one"), folder.yes.answered_elsewhere()) == ([ONE], [False], None)
    say(folder.yes, is_trusted=True)
    assert (folder.yes.waiting(), folder.holds("one"), folder.told) == ([], [True], ["hooks"])
    assert (FolderTrust(folder.of(tmp_path)).answered_elsewhere(), folder.told) == (True, ["hooks", "hooks"])
    assert folder.other.waiting() == FolderTrust(folder.of(Path("/elsewhere"))).waiting() == [ONE]


def test_a_change_asks_again_a_no_can_be_taken_back_and_nothing_brought_is_nothing_asked(folder: Folder) -> None:
    say(folder.yes, is_trusted=True)
    folder.brought = [TWO]
    assert (folder.yes.waiting(), folder.holds("two", "one")) == ([replace(TWO, change="contents changed")], [False, True])
    say(folder.yes, is_trusted=False)
    assert (folder.yes.waiting(), folder.yes.refused(), folder.yes.answered_elsewhere()) == ([], [TWO], False)
    say(folder.yes, is_trusted=True)
    assert (folder.yes.refused(), folder.holds("two", "one")) == ([], [True, False])
    folder.brought = []
    assert (folder.yes.waiting(), folder.yes.refused(), folder.holds("")) == ([], [], [False])


def test_what_is_taken_back_waits_whatever_its_kind_and_other_folders_keep_theirs(folder: Folder, tmp_path: Path) -> None:
    own, elsewhere = FolderTrust(folder.of(None)), FolderTrust(folder.of(tmp_path / "else", "agents"))
    for trust in (folder.yes, folder.other, own, elsewhere):
        say(trust, is_trusted=True)
    assert trusted_folders() == {str(tmp_path): [HOOK, HOOK], str(tmp_path / "else"): [HOOK]}
    folder.told.clear()
    folder.yes.revoke()
    assert [trust.waiting() for trust in (folder.yes, folder.other, own)] == [[ONE], [ONE], []]
    assert folder.told == ["no hooks", "hooks"]
    assert list(trusted_folders()) == [str(tmp_path / "else")]


@for_each("text", ["{", "[]", '{"/": 3}', '{"/": {"hooks:one": ["allowed"]}}', '{"/": {"hooks:one": ["allowed", [1]]}}'])
def test_a_file_of_answers_that_cannot_be_read_trusts_nothing(folder: Folder, home: Path, tmp_path: Path, text: str) -> None:
    write_whole(home / "state" / "trust.json", text.replace("/", str(tmp_path)))
    assert (folder.holds("one"), folder.yes.waiting()) == ([False], [ONE])
    say(folder.yes, is_trusted=True)
    assert folder.holds("one") == [True]


def test_what_changed_behind_the_same_words_is_not_what_was_shown(folder: Folder) -> None:
    shown = folder.yes.waiting()
    folder.brought = [TWO]
    with pytest.raises(ConfigError, match="have changed"):
        folder.yes.answer(shown, is_trusted=True)
    assert (folder.holds("one", "two"), folder.yes.waiting()) == ([False, False], [TWO])


def test_a_file_is_for_its_owner_alone_and_no_draft_is_left(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.json"
    write_whole(file, "one")
    file.chmod(0o644)
    write_whole(file, "two")
    assert (file.read_text(), file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == ("two", 0o600, 0o700)
    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "\ud800", errors="strict")
    assert (file.read_text(), list(file.parent.iterdir())) == ("two", [file])
