from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.sandbox.guest.beneath import Refused, Root
from lmtui.sandbox.guest.listing import glob, grep
from lmtui.sandbox.guest.protocol import Message
from lmtui.sandbox.workspace_sandbox import translate
from tests.sets import depth, for_each


def search(
    root: Path, pattern: str, *, path: str = "", is_literal: bool = True, context_lines: int = 0, max_matches: int = 10
) -> Message:
    query = {"pattern": pattern, "path": path, "glob": "", "ignore_case": False, "is_literal": is_literal}
    return grep(Root(str(root)), {**query, "context_lines": context_lines, "max_matches": max_matches})


@for_each("pattern", ["(", "a{99999999999999999999}", "(" * 3000 + ")" * 3000])
def test_a_pattern_that_python_cannot_compile_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "a.txt").write_text("aaa\n")
    with pytest.raises(Refused, match="not a regular expression"):
        _ = search(tmp_path, pattern, is_literal=False)


@pytest.mark.full
@for_each("letter", depth(["\x01"], ["a", "\u6587", "\U0001f600", "\x01"]))
def test_what_is_found_fits_into_one_answer_whatever_its_letters(tmp_path: Path, letter: str) -> None:
    (tmp_path / "a.txt").write_text(f"{letter * 490}\n" * 1_000)
    found = search(tmp_path, letter, context_lines=3, max_matches=1_000)
    assert len(found["matches"]) > 50
    assert len(json.dumps(found)) < 700_000


@pytest.mark.parametrize("has_rg", [True, False])
def test_what_cannot_be_searched_is_refused_and_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_rg: bool
) -> None:
    if not has_rg:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "a.bin").write_bytes(b"\0needle\n")
    (tmp_path / "a.txt").write_text("x needle\n", encoding="utf-16-le")
    for name in ("a.bin", "a.txt"):
        with pytest.raises(Refused, match=f"{name} is binary"):
            _ = search(tmp_path, "needle", path=name)
    assert not search(tmp_path, "needle")["matches"]
    for pattern in () if has_rg else ("[[:alpha:]]", r"a\nb", r"\p{Lu}"):
        with pytest.raises(Refused, match="needs ripgrep"):
            _ = search(tmp_path, pattern, is_literal=False)
    with pytest.raises(SandboxError, match="begins with !"):
        _ = translate("!*.py")


def test_names_that_do_not_fit_into_one_answer_are_refused_in_words(tmp_path: Path) -> None:
    for number in range(700):
        (tmp_path / f"{number}{chr(0x6587) * 80}").touch()
    assert len(glob(Root(str(tmp_path)), ".*", 200)["paths"]) == 200
    folder = tmp_path / (chr(0x6587) * 80)
    folder.mkdir()
    for number in range(700):
        (folder / f"{number}{chr(0x6587) * 80}").touch()
    with pytest.raises(Refused, match="a pattern that matches fewer"):
        _ = glob(Root(str(tmp_path)), ".*", 10_000)


@for_each("has_ripgrep", [True, False])
def test_lines_are_numbered_as_editors_do_with_ripgrep_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_ripgrep: bool
) -> None:
    if not has_ripgrep:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "a.txt").write_bytes("one\x0c\nt\u2028wo\x85\r\n\nfour x".encode())
    assert [line[1] for line in search(tmp_path, "x", context_lines=1)["matches"]] == [3, 4]


@pytest.mark.full
def test_a_search_without_ripgrep_finds_the_same_and_reads_big_files_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    for name, data in {
        b"latin.txt": b"caf\xe9 needle\n", b"o\xe9.txt": b"one\r\nneedle\r\n", b"a.txt": b"\xef\xbb\xbfneedle",
        b"wide": "one\nneedle \u6587\n".encode("utf-16"), b"wider": "needle\n".encode("utf-32"), b"a/b/nul": b"needle\0\n",
        b"a/b/late": b"needle\n" + b"line\n" * 20_000 + b"\0\n", b"a/z": b"needle\nx needle\ny\nz\n",
        b"log": b"a line of a log\n" * 400_000 + b"needle\n", b"none\xff": b"nothing\0\n", b"empty": b"",
    }.items():  # fmt: skip
        Path(os.fsdecode(bytes(root) + b"/" + name)).write_bytes(data)

    def found() -> list[list[tuple[str, int, str, bool]]]:
        lines = [search(root, "needle$", is_literal=False, context_lines=1, max_matches=50)["matches"]]
        lines += [search(root, "needle", path=path, max_matches=50)["matches"] for path in ("", "a/z")]
        return lines

    with_ripgrep, names = found(), glob(Root(str(root)), r".*\.txt", 10)
    assert sorted(names["paths"]) == ["a.txt", "latin.txt", "o\ufffd.txt"]
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert (found(), glob(Root(str(root)), r".*\.txt", 10)) == (with_ripgrep, names)
    assert [tuple(line[:3]) for line in with_ripgrep[1]] == [
        ("a/z", 1, "needle"), ("a/z", 2, "x needle"), ("a.txt", 1, "needle"), ("latin.txt", 1, "caf\ufffd needle"),
        ("log", 400_001, "needle"), ("o\ufffd.txt", 2, "needle"), ("wide", 2, "needle \u6587"),
    ]  # fmt: skip
    assert len(with_ripgrep[2]) == 2
