from __future__ import annotations

from lmtui.core.events import Envelope, Event, FilesChanged, FilesRestored
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.session_state import ChangedFiles
from tests.tui.fakes import START

MODIFIED = FileChange("a.py", FileChangeKind.MODIFIED, 4, 2)
BACK = FileChange("a.py", FileChangeKind.MODIFIED, 2, 4)
ADDED = FileChange("b.py", FileChangeKind.ADDED, 3, 0)
GONE = FileChange("b.py", FileChangeKind.DELETED, 0, 3)


def after(*happened: Event) -> ChangedFiles:
    files = ChangedFiles()
    for number, event in enumerate(happened, 1):
        files.apply(Envelope(number, START, "s", event))
    return files


def changed(call: str, *changes: FileChange) -> FilesChanged:
    return FilesChanged(call_id=call, files=tuple(change.path for change in changes), changes=changes)


def restored(action: str, *changes: FileChange, calls: tuple[str, ...] = ()) -> FilesRestored:
    return FilesRestored(action=action, calls=calls, files=tuple(change.path for change in changes), changes=changes)


def test_what_is_undone_is_no_change_any_more_and_what_is_done_again_is() -> None:
    steps = (changed("c1", MODIFIED), changed("c2", ADDED))
    undone = restored("undo", GONE, calls=("step_2",))
    assert list(after(*steps, undone).net) == ["a.py"]
    assert after(*steps, undone, restored("redo", ADDED, calls=("step_2",))).net == after(*steps).net

    files = after(changed("c1", MODIFIED), changed("c2", BACK), restored("undo", MODIFIED, calls=("step_2",)))
    assert (files.net["a.py"].added_lines, files.net["a.py"].removed_lines) == (4, 2)
    files = after(changed("c1", MODIFIED), changed("c2", ADDED), restored("rewind", BACK, GONE, calls=("step_1", "step_2")))
    assert files.net == {}


def test_a_file_put_back_whole_is_unchanged_and_one_put_back_in_part_is_not() -> None:
    assert after(changed("c1", MODIFIED), restored("restore", BACK, calls=("step_1",))).net == {}
    part = FileChange("a.py", FileChangeKind.MODIFIED, 1, 2)
    assert list(after(changed("c1", MODIFIED), restored("restore", part, calls=("step_1",))).net) == ["a.py"]
    both = FileChange("a.py", FileChangeKind.MODIFIED, 4, 8)
    assert after(changed("c1", MODIFIED), changed("c2", MODIFIED), restored("restore", both)).net == {}
    put_back = restored("restore", BACK, calls=("step_1",))
    files = after(changed("c1", MODIFIED), put_back, restored("undo", MODIFIED, calls=("step_2",)))
    assert files.net["a.py"].added_lines == 4
