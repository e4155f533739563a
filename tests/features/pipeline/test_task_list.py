"""Task lists and open questions as people write them."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.features.pipeline.task_list import open_questions, read_task_list, task_item
from lmtui.features.pipeline.values import OpenQuestion, TaskSpec
from tests.sets import few, for_each

LIST = """\
# Calculator

Some words about it.

## Phase: parser
- [ ] Add a tokenizer
  It turns text into tokens.

  ```python
  # - [ ] no task
  check: no field
  ```
  files: src/tok.py, tests/test_tok.py
  check: pytest -q tests/test_tok.py
  check: `python -m src.tok --self-test`
- [x] Set up the project
* [ ] **Add a parser:**
\tfiles:
\t  - `src/parser.py`
\tafter: 1, set up the  project
+ [ ] Répondre aux erreurs
    after: add a PARSER

## Other work
1. [ ] 文档
"""


def test_a_list_is_read_whole() -> None:
    text = "It turns text into tokens.\n\n```python\n# - [ ] no task\ncheck: no field\n```"
    checks = ("pytest -q tests/test_tok.py", "python -m src.tok --self-test")
    assert read_task_list(LIST) == [
        TaskSpec("Add a tokenizer", text, ("src/tok.py", "tests/test_tok.py"), (), checks, "parser"),
        TaskSpec("Add a parser", "", ("src/parser.py",), (1,), (), "parser"),
        TaskSpec("Répondre aux erreurs", "", (), (2,), (), "parser"), TaskSpec("文档"),
    ]  # fmt: skip
    assert read_task_list(LIST.replace("\n", "\r\n")) == read_task_list(LIST)
    own = read_task_list("- [ ] 3. Add a\n  files: a\n- [ ] 4. Add b\n  after: 3\n- [ ] 5. Add c\n")
    assert own == [TaskSpec("Add a", "", ("a",)), TaskSpec("Add b", after=(1,)), TaskSpec("Add c")]


@for_each(("text", "titles"), [
    ("1. [ ] Add a\n   files: a.py\n2. [ ] Task 2: Add b\n   after: 1\n", ["Add a", "Add b"]),
    ("- [ ] Parser\n  - [ ] tokens\n  - [x] grammar\n- [ ] Printer", ["Parser", "Printer"]),
    ("- [ ] BLOCKING: which database?\n- [ ] Add a", ["Add a"]), ("- [x] Done\n", []),
])  # fmt: skip
def test_forms_of_a_list(text: str, titles: list[str]) -> None:
    specs = read_task_list(text)
    assert specs is not None
    assert [each.title for each in specs] == titles


def test_a_field_goes_on_below_its_name_until_something_else_comes() -> None:
    text = (
        "- [ ] Add a\n  depends on:\n\n  check:\n  - pytest -q\n  - `make`\n  words\n"
        "  files:\n\n  - a.py\n\n  - see b\n  - [ ] step one\n  ```\n  b.py\n  ```\n  check: run `ruff check`\n\n  - more\n"
    )
    words = "words\n\n- see b\n- [ ] step one\n```\nb.py\n```\n\n- more"
    checks = ("pytest -q", "make", "ruff check")
    assert read_task_list(text) == [TaskSpec("Add a", words, ("a.py",), (), checks)]


@for_each("text", [
    "", "Write a parser.\n\nIt reads files: all of them.",
    "1. First do this\n2. Then do that\n3. Check: it works",
    "1. Add a\n   files: a.py\n", "### Task 1: Add a\nfiles: a.py\n", "- one\n- two", "- [a](b)\n- [ ]\n",
    "Words.\n" * 50 + "## Done when\n- [ ] it works\n- [ ] it is fast\n",
    "```\n- [ ] a\n  files: b\n```",
])  # fmt: skip
def test_prose_is_no_list(text: str) -> None:
    assert read_task_list(text) is None


@for_each(("line", "budget"), [
    ("budget: 20 steps", (20, 0)), ("- **Budget:** 20 steps, 5,000 tokens", (20, 5_000)),
    ("budget: 1.5k tokens", (0, 1_500)), ("budget: 20 steps\n  budget: 50k tokens", (20, 50_000)),
    ("Budget: $500", (0, 0)), ("budget: 2h", (0, 0)),
])  # fmt: skip
def test_a_budget_has_steps_and_tokens(line: str, budget: tuple[int, int]) -> None:
    (spec,) = read_task_list(f"- [ ] Add a\n  files: a.py\n  {line}\n") or [TaskSpec("")]
    assert (spec.max_steps, spec.max_tokens) == budget
    assert bool(spec.text) is not any(budget)
    assert read_task_list(task_item(spec)) == [spec]


@for_each(("lines", "problem"), [
    ("budget: many steps\n  files: a.py", "line 2: 'many steps' does not begin"),
    ("budget: 1h 20 steps\n  files: a.py", "line 2: .* but no time"),
    ("files: a.py\n- [ ] Add b\n  after: 1, Sing", "line 4: after names 'Sing', which is not a task"),
    ("check:\n  ```\n  make\n  ```", "line 1: a check has no command"),
])  # fmt: skip
def test_what_cannot_be_read_is_named_with_their_line(lines: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_task_list(f"- [ ] Add a\n  {lines}\n")


def test_open_questions_wherever_they_are_marked() -> None:
    text = (
        "BLOCKING: Which database?\nAnswer: SQLite\n\n- BLOCKING Which port?\n\n"
        "Q1 (BLOCKING): Which *name*?\n  - Answer:\n**BLOCKING** Who pays?\n- [ ] Which key? **BLOCKING**\n"
        "1. **Q2 (BLOCKING):** How long?\n   **Answer:** an hour\nBlocking calls are slow. NONBLOCKING too.\n"
        "```\nBLOCKING: no question\n```\nBLOCKING: none\n## Rest\n- No\n"
        "### BLOCKING\nWhere?\nAnswer: here\n## BLOCKING questions\n- Why?\n"
    )
    assert open_questions(text) == (
        OpenQuestion("Which database?", "SQLite"), OpenQuestion("Which port?"),
        OpenQuestion("Which *name*?"), OpenQuestion("Who pays?"), OpenQuestion("Which key?"),
        OpenQuestion("How long?", "an hour"), OpenQuestion("Where?", "here"), OpenQuestion("questions"),
    )  # fmt: skip


PIECES = [
    "- [ ] ", "# ", "### Task 1: ", "1. ", "files:", "after: 1", "check:", "```", "\n", "\n", "\t",
    " ", "é", "\ud800", "x", "BLOCKING",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert all(each.text and "\ud800" not in each.text for each in open_questions(text))
    with contextlib.suppress(UsageError):
        specs = read_task_list(text) or ()
        assert all(each.title and all(0 < number <= len(specs) for number in each.after) for each in specs)


HOSTILE = [
    "- [ ", "- [ ] ", "- [ ] a\n", "#", "# ", "`", "```\n", "*", "- ", " ", "\t", "1. ",
    "**BLOCKING", "- BLOCKING\n", "(", "> ", "|",
]  # fmt: skip


@for_each("piece", few(HOSTILE))
def test_nothing_takes_long(piece: str) -> None:
    begun = time.process_time()
    for text in (piece * (60_000 // len(piece)), f"- [ ] a\n  files: {piece * (30_000 // len(piece))}x"):
        read_task_list(text)
        open_questions(text)
    assert time.process_time() - begun < 2
