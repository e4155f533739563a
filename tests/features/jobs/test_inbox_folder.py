from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmtui.core.errors import JobsError
from lmtui.features.jobs.inbox_folder import InboxFolder

WRITTEN_S = 1_700_000_000


class Inbox:
    """An inbox whose table is a dict."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs: dict[str, str] = {}
        self.is_trusted = True
        self.is_full = False
        self.inbox = InboxFolder(folder, self.add, lambda: self.is_trusted)
        self.told = self.inbox.problems

    def add(self, text: str, source: str) -> None:
        if self.is_full:
            raise JobsError("the disk is full")
        self.jobs.setdefault(source, text)

    def take(self) -> list[str]:
        for path in self.folder.glob("*.task"):
            if path.lstat().st_mtime != WRITTEN_S:
                os.utime(path, (WRITTEN_S, WRITTEN_S), follow_symlinks=False)
        self.inbox.take()
        return list(self.jobs.values())


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    folder = tmp_path / ".lmagent" / "inbox"
    folder.mkdir(parents=True)
    return Inbox(folder)


def test_files_become_jobs_in_the_order_of_their_names_and_go(inbox: Inbox) -> None:
    (inbox.folder / "2.task").write_text("second\n")
    (inbox.folder / "1.task").write_text("first: ünï\nwith a second line")
    (inbox.folder / "notes.txt").write_text("none")
    assert inbox.take() == ["first: ünï\nwith a second line", "second"]
    assert [path.name for path in inbox.folder.iterdir()] == ["notes.txt"]
    assert not inbox.inbox.has_news()


def test_a_file_that_grows_is_waited_for_and_one_whose_job_cannot_be_added_stays(inbox: Inbox) -> None:
    (inbox.folder / "a.task").write_text("task")
    inbox.is_full = True
    with pytest.raises(JobsError):
        inbox.take()
    assert (inbox.folder / "a.task").exists()
    inbox.is_full = False
    assert inbox.take() == ["task"]
    path = inbox.folder / "b.task"
    path.write_text("half and the other half")
    inbox.inbox.take()
    assert list(inbox.jobs.values()) == ["task"]
    assert inbox.inbox.has_news()
    assert inbox.take() == ["task", "half and the other half"]


def test_a_file_that_stayed_after_its_job_was_added_makes_no_second(inbox: Inbox) -> None:
    path = inbox.folder / "a.task"
    path.write_text("task")
    seen: list[str] = []
    again = InboxFolder(inbox.folder, lambda _, source: seen.append(source), lambda: True)
    copy = inbox.folder.parent / "kept"
    os.link(path, copy)
    inbox.take()
    os.link(copy, path)  # as if lmtui had ended between the table and the folder
    again.take()
    assert seen == list(inbox.jobs)


def test_what_is_no_task_is_put_aside_with_the_reason(inbox: Inbox) -> None:
    (inbox.folder / "bytes.task").write_bytes(b"\xff\xfe\x00")
    (inbox.folder / "empty.task").write_text(" \n")
    (inbox.folder / "huge.task").write_text("x" * 500_000)
    (inbox.folder / "link.task").symlink_to("/etc/passwd")
    os.mkfifo(inbox.folder / "pipe.task")
    (inbox.folder / "folder.task").mkdir()
    assert inbox.take() == []
    names = {path.name for path in inbox.folder.iterdir()}
    assert names == {
        f"{name}.failed{end}" for name in ("bytes", "empty", "huge", "link", "pipe", "folder") for end in ("", ".txt")
    }
    assert "UTF-8" in (inbox.folder / "bytes.failed.txt").read_text()
    assert len(inbox.told) == 6


def test_a_name_that_is_no_text_makes_a_job_like_another(inbox: Inbox) -> None:
    (inbox.folder / os.fsdecode(b"caf\xe9.task")).write_text("task")
    (inbox.folder / os.fsdecode(b"empty\xe9.task")).write_text("")
    assert inbox.take() == ["task"]
    assert next(iter(inbox.jobs)).startswith("inbox caf\N{REPLACEMENT CHARACTER}.task ")
    assert all(text.encode() for text in (*inbox.jobs, *inbox.told))
    assert len(inbox.told) == 1


def test_what_can_be_neither_taken_nor_put_aside_is_no_news_until_it_is_another(inbox: Inbox) -> None:
    path = inbox.folder / "a.task"
    path.mkdir()
    (inbox.folder / "a.failed" / "full").mkdir(parents=True)  # nothing can take its place
    (inbox.folder / "b.task").write_text("task")
    assert inbox.take() == ["task"]
    assert path.exists()
    assert not inbox.inbox.has_news()
    assert len(inbox.told) == 1
    path.rmdir()
    path.write_text("now it is one")
    assert inbox.inbox.has_news()
    assert inbox.take() == ["task", "now it is one"]


def test_a_file_that_cannot_go_becomes_one_job_and_is_no_news(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    (inbox.folder / "a.task").write_text("task")
    monkeypatch.setattr(os, "unlink", refuse)
    assert inbox.take() == ["task"]
    assert not inbox.inbox.has_news()
    assert inbox.told == [".lmagent/inbox/a.task was added as a job, but not deleted: Operation not permitted"]


def test_the_tasks_of_an_untrusted_folder_stay_and_are_told_once(inbox: Inbox) -> None:
    inbox.is_trusted = False
    (inbox.folder / "a.task").write_text("rm -rf ~")
    assert inbox.inbox.has_news()
    assert (inbox.take(), inbox.take()) == ([], [])
    assert not inbox.inbox.has_news()
    assert len(inbox.told) == 1
    assert inbox.told[0].startswith("1 task waits in .lmagent/inbox: this folder's inbox is not trusted")
    inbox.is_trusted = True
    assert inbox.take() == ["rm -rf ~"]


def test_a_folder_that_is_a_link_or_is_not_there_has_no_tasks(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.task").write_text("task")
    (tmp_path / ".lmagent").mkdir()
    (tmp_path / ".lmagent" / "inbox").symlink_to(elsewhere)
    assert Inbox(tmp_path / ".lmagent" / "inbox").take() == []
    assert Inbox(tmp_path / "nowhere").take() == []
