from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from lmtui.features.folder_consent import replace_file


def test_a_file_is_for_its_owner_alone_and_no_draft_is_left(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.json"
    replace_file(file, "one")
    file.chmod(0o644)
    replace_file(file, "two")
    assert (file.read_text(), file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == ("two", 0o600, 0o700)
    with pytest.raises(UnicodeEncodeError):
        replace_file(file, "\ud800")
    assert (file.read_text(), list(file.parent.iterdir())) == ("two", [file])


def test_several_writers_at_once_leave_one_whole_text(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    texts = [json.dumps([str(number)] * (number * 2_000 + 1)) for number in range(8)]

    def write(text: str) -> None:
        for _ in range(40):
            replace_file(file, text)

    writers = [threading.Thread(target=write, args=(text,)) for text in texts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert file.read_text() in texts
    assert list(tmp_path.iterdir()) == [file]
