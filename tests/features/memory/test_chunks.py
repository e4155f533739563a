from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmtui.core.memory_values import SearchSource
from lmtui.features.memory.chunks import MAX_CHUNK_CHARS, STOP_WORDS, cut, is_generated, source_of, stem, words_of
from lmtui.tools.text import lines_of

LINES = st.lists(
    st.sampled_from(
        ["", "    ", "# Top", "## Below", "```", "class A:", "    def run(self):", "        return 1", "@cached", "x = 2", "}"]
    )
    | st.text(max_size=30)
    | st.integers(1, 4_000).map(lambda count: "z" * count)
    | st.integers(0, 40).map(lambda indent: " " * indent + "word"),
    max_size=60,
)
TEXTS = st.builds(lambda lines, end: end.join(lines), LINES, st.sampled_from(["\n", "\r\n"]))


@given(st.sampled_from(["a.py", "a.md", "a.rs", "a.txt"]), TEXTS)
def test_each_line_that_is_not_blank_is_in_one_chunk_and_a_long_one_in_several(path: str, text: str) -> None:
    lines = lines_of(text)
    found = cut(path, text)
    seen = 0
    for at, chunk in enumerate(found):
        assert len(chunk.text) <= MAX_CHUNK_CHARS
        if at and (chunk.first, chunk.last) == (found[at - 1].first, found[at - 1].last):
            continue
        assert not "".join(lines[seen : chunk.first - 1]).strip()
        same = [each.text for each in found if (each.first, each.last) == (chunk.first, chunk.last)]
        assert "".join(same) == "".join(lines[chunk.first - 1 : chunk.last])
        assert len(same) == 1 or chunk.first == chunk.last
        seen = chunk.last
    assert not "".join(lines[seen:]).strip()


def test_python_is_cut_at_its_functions_and_a_long_class_at_its_methods() -> None:
    method = "".join(f"        self.value_{number} = compute({number})\n" for number in range(30))
    code = f"LIMIT = 3\n\n\nclass Store:\n    def load(self):\n{method}\n    @cached\n    def save(self):\n{method}\n"
    titles = [chunk.title for chunk in cut("a.py", code)]
    assert titles == ["LIMIT", "Store Store.load", "Store.save"]
    assert cut("a.py", code)[2].text.startswith("    @cached\n    def save")


def test_a_chunk_names_all_that_it_defines() -> None:
    code = "class Parser:\n    LIMIT = 3\n\n    def error(self):\n        total = 1\n\n        def inner():\n            pass\n"
    assert [chunk.title for chunk in cut("a.py", code)] == ["Parser Parser.error Parser.error.inner"]
    script = "export async function load(url) {\n  const data = 1\n}\n\nexport const LIMIT = 2\n\nclass Store {\n}\n"
    assert [chunk.title for chunk in cut("a.ts", script)] == ["load LIMIT Store"]


def test_markdown_is_cut_at_headings_which_are_not_those_in_code() -> None:
    text = "# Guide\n\nhello\n\n## Install\n\n```sh\n# not a heading\n```\n\n# Other\n"
    assert [(chunk.first, chunk.last, chunk.title) for chunk in cut("a.md", text)] == [
        (1, 3, "Guide"), (5, 9, "Guide > Install"), (11, 11, "Other"),
    ]  # fmt: skip


def test_a_file_that_is_ever_more_indented_is_cut_all_the_same() -> None:
    text = "\n\n".join(" " * depth + "begin" for depth in range(1_300))
    assert len(cut("a.js", text)) > 100


@pytest.mark.parametrize("path", sorted(Path("lmtui/core").glob("*.py")), ids=lambda path: path.name)
def test_chunks_of_real_code_begin_at_a_block(path: Path) -> None:
    text = path.read_text()
    lines = text.splitlines()
    for chunk in cut("a.py", text)[1:]:
        before = lines[chunk.first - 2]
        assert not before.strip() or before.lstrip().startswith(("@", "class", '"""')) or lines[chunk.first - 1].strip() != ""


def test_a_name_is_found_whole_and_in_its_parts() -> None:
    assert words_of("core.read_plain(SessionStore)") == [
        stem("core"), "read_plain", "read", "plain", "core.read_plain", "sessionstore", stem("session"), stem("store"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [("running", "run"), ("cached", "caching"), ("queries", "query"), ("processes", "process"), ("approval", "approved")],
)
def test_forms_of_a_word_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_accents_do_not_count_and_japanese_is_found_by_two_letters() -> None:
    assert words_of("Größe café") == [*words_of("Große cafe")]
    assert words_of("設定画面") == ["設定", "定画", "画面"]


@given(st.text())
@example("we㏠")
def test_words_of_any_text_are_plain(text: str) -> None:
    for word in words_of(text):
        assert word not in STOP_WORDS
        assert '"' not in word
        assert word.strip()


def test_data_and_generated_code_are_left_out() -> None:
    assert source_of("a/poetry.lock") is None
    assert source_of("docs/guide.md") is SearchSource.DOC
    assert source_of("src/Main.java") is SearchSource.CODE
    assert is_generated("var a=1;" * 1_000)
    assert not is_generated("x = 1\n" * 1_000)
