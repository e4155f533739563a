"""From a plan to its tasks: what a model's answer is taken for, how a plan is cut, and what is asked again."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import LmtuiError, ProviderError, ToolError, UsageError
from lmtui.core.window import bytes_by_four
from lmtui.features.pipeline.planner import (
    FORM,
    PLANNER_SYSTEM,
    TASKS_SCHEMA,
    TaskDraft,
    chunks,
    decompose,
    is_check,
    joined,
    preflight,
    read_tasks,
)
from lmtui.features.pipeline.values import TaskSpec
from tests.sets import depth, for_each

A = {"title": "Add a", "description": "Make a.", "files": ["a.py"], "after": [], "check": "pytest -q"}
B = {"title": "Add b", "description": "Make b.", "files": ["b.py"], "after": [1], "check": ""}
SPECS = {1: TaskSpec("Add a", "Make a.", ("a.py",), (), ("pytest -q",)), 2: TaskSpec("Add b", "Make b.", ("b.py",), (1,))}
WHOLE = json.dumps({"tasks": [A, B]})


@for_each("answer", [
    WHOLE, f'<think>{{"tasks": [</think>Here it is:\n```json\n{WHOLE}\n```\nDone [x].',
    json.dumps([A, B]), f"{json.dumps(A)}\n{json.dumps(B)}",
    WHOLE.replace('"after": [1]', '"dependencies": "add  A"'),
    WHOLE.replace('"after": [1]', '"depends_on": ["Task 1"]'), WHOLE.replace("]}", "],}"),
    WHOLE.replace('["b.py"]', '"./b.py"'),
    json.dumps({"tasks": [A | {"check": "Run `pytest -q` and see that it passes."}, B | {"title": "2. Add b"}]}),
    json.dumps({"tasks": [A, B, A]}), f"{FORM}\n{WHOLE}",
    json.dumps(
        {"tasks": [{"name": "Add a", "details": "Make a.", "file_paths": ["a.py"], "verification": "`pytest -q`"}, B]}
    ),
])  # fmt: skip
def test_forms_of_an_answer(answer: str) -> None:
    assert joined([read_tasks(answer)]) == SPECS


@for_each(("answer", "problem"), [
    ("", "no tasks"), ("First we add a parser, then we test it.", "no tasks"),
    ('{"tasks": []}', "no tasks"), (WHOLE[:-40], "not complete"),
    (f'{{"plan": [{WHOLE}, {{"tasks": [', "not complete"),
    (json.dumps({"tasks": [A | {"after": [2]}, B]}), "wait for each other"),
    (json.dumps({"tasks": [A | {"description": "x" * 9_000}]}), "characters"),
    ("[" * 100_000, "not complete"),
    ('{"tasks": [{"title": "x", "id": ' + "9" * 5_000 + "}]}", "not complete"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_the_form(answer: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem) as caught:
        read_tasks(answer)
    assert FORM in caught.value.full_text()


def test_paths_outside_and_unknown_tasks_become_notes_and_checks_in_prose_go() -> None:
    task = A | {
        "files": ["/etc/passwd", "a.py", "../b", ".git/config"], "after": ["Sing", 1],
        "check": ["Make sure it works.", "make test"],
    }  # fmt: skip
    spec = joined([read_tasks(json.dumps([task]))])[1]
    assert (spec.files, spec.checks, spec.after) == (("a.py",), ("make test",), ())
    assert spec.text.splitlines() == [
        "Make a.",
        *(f"Left out: {path} is not in the workspace." for path in ("/etc/passwd", "../b", ".git/config")),
        "Left out: it was to wait for 'Sing', which is not a task.",
    ]


def test_a_command_is_a_check_and_prose_is_none() -> None:
    commands = (
        "pytest -q", "make", "make all", "npm test", "python -m unittest", "go test ./...", "./run.sh", "PYTHONPATH=src pytest",
        "cargo test && cargo clippy", 'grep -q "the end" a.txt', "test -f a.py", "[ -f a.py ]", "cd web && npm test",
        "ls src | grep x", "mytool --check", "python3 tests/run_all.py", "pytest tests/tést.py", "tool src/a.py",
    )  # fmt: skip
    prose = (
        "", "none", "Check that it works", "make sure the tests pass", "the tests pass", "test that a is b", "manual",
        "Prüfe, ob es geht", "führe die Tests aus", "运行测试", "pytest passes", "it's fine", "run all of it", "go läuft", "…",
        "true", "echo done", "cd web", "exit 0", "python a.py prints the sum", "look at a and b",
    )  # fmt: skip
    assert [text for text in (*commands, *prose) if is_check(text)] == [*commands]


def test_tasks_wait_across_parts_and_for_a_file() -> None:
    def draft(title: str, *files: str, after: tuple[str, ...] = ()) -> TaskDraft:
        return TaskDraft(TaskSpec(title, files=files), after)

    first = [draft("Base", "a"), draft("Tests", "t1"), draft("Late", "b", after=("Later",))]
    second = [draft("Base", "a"), draft("Tests", "t2"), draft("Later", "b", after=("tests",)), draft("Ends", "a", "b")]
    specs = joined([first, second])
    assert [each.title for each in specs.values()] == ["Base", "Tests", "Late", "Tests", "Later", "Ends"]
    assert {number: each.after for number, each in specs.items()} == {1: (), 2: (), 3: (5,), 4: (), 5: (4,), 6: ()}
    drafts = read_tasks(json.dumps([A | {"files": ["src/a.py"]}, B | {"after": ["src/a.py", "a.py"]}]))
    assert joined([drafts])[2] == TaskSpec("Add b", "Make b.", ("b.py",), (1,))


LINES = [
    "# A\n", "## B\n", "### C\n", "- item\n", "1. item\n", "\n", "```\n", "words and words\n",
    "\r\n", "x" * 30, "é", "\u2028", " ",
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=60).map("".join), st.integers(0, 40))
def test_parts_joined_are_the_text_and_fit(text: str, most: int) -> None:
    parts = chunks(text, most, len)
    assert "".join(parts) == text
    assert all(len(part) <= max(1, most) for part in parts)


class Model:
    """Answers as it is told to, the last answer again and again."""

    def __init__(self, *answers: str | None) -> None:
        self.answers, self.prompts = list(answers), list[str]()

    async def ask(self, system: str, prompt: str, schema: Mapping[str, object]) -> str | None:
        assert (system, schema) == (PLANNER_SYSTEM, TASKS_SCHEMA)
        self.prompts.append(prompt)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def no_model(*_: object) -> str | None:
    raise AssertionError("a task list needs no model")


async def planned(text: str, model: Model, window: int = 8_000, **more: Any) -> dict[int, TaskSpec]:
    return await decompose(text, model.ask, window, bytes_by_four, **more)


async def test_a_task_list_needs_no_model_and_one_is_told_once_what_is_wrong() -> None:
    text = "- [ ] Add a\n  files: a.py\n- [ ] Add b\n  files: a.py\n"
    specs = await decompose(text, no_model, 4_000, bytes_by_four)
    assert {number: each.title for number, each in specs.items()} == {1: "Add a", 2: "Add b"}
    model = Model("Sure!", f"Sorry. {WHOLE}")
    specs = await planned("Write a and b.", model, survey="Files:\na.py")
    assert ([each.title for each in specs.values()], len(model.prompts)) == (["Add a", "Add b"], 2)
    assert "Files:\na.py" in model.prompts[0]
    assert "there are no tasks in your answer" in model.prompts[1]
    assert FORM in model.prompts[1]


@for_each("answer", ["Sure!", WHOLE[:-9], '{"tasks": []}'])
async def test_a_model_that_never_answers_usably_ends_it(answer: str) -> None:
    model = Model(answer)
    with pytest.raises(ProviderError, match="no usable task list") as caught:
        await planned("Write a and b.", model)
    assert len(model.prompts) == 2
    assert "- [ ] Title" in caught.value.hint


async def test_no_answer_is_no_plan_a_window_without_room_is_said_and_halves_of_surrogates_are_read() -> None:
    with pytest.raises(LmtuiError, match="did not answer"):
        await planned("Write a.", Model(None))
    with pytest.raises(UsageError, match="window of 600 tokens is too small"):
        await planned("Write a.", Model(WHOLE), 600)
    specs = await planned("写一个解析器 🙂", Model(json.dumps([{"title": "解析器 \ud800", "files": ["源.py"]}])))
    assert specs[1].files == ("源.py",)
    specs[1].title.encode()


def sections(count: int) -> str:
    return "".join(f"# Part {number}\n{'words ' * 100}\n" for number in range(count))


def part_answer(number: int, after: list[object] | None = None) -> str:
    return json.dumps({"tasks": [{"title": f"Do {number}", "files": [f"{number}.py"], "after": after or []}]})


async def test_finished_parts_are_kept_and_not_asked_again() -> None:
    text, kept = sections(20), dict[str, str]()

    async def keep(digest: str, answer: str) -> None:
        kept[digest] = answer

    model = Model(part_answer(1), part_answer(2, ["do 1"]), None)
    with pytest.raises(LmtuiError):
        await planned(text, model, 1_600, keep=keep)
    assert len(kept) == 2
    assert "- Do 1\n" in model.prompts[1] + "\n"
    again = Model(part_answer(3, ["Do 1"]), '{"tasks": []}')
    specs = await planned(text, again, 1_600, known=kept, keep=keep)
    assert {number: each.after for number, each in specs.items()} == {1: (), 2: (1,), 3: (1,)}
    assert not any("# Part 0" in prompt for prompt in again.prompts)


async def test_a_part_whose_answer_is_cut_is_asked_about_in_halves() -> None:
    model = Model(WHOLE[:50], WHOLE[:50], part_answer(1), part_answer(2))
    specs = await planned(sections(4), model)
    assert ([each.title for each in specs.values()], len(model.prompts)) == (["Do 1", "Do 2"], 4)


@for_each(("text", "problem"), [
    ("- [ ] a\n  after: 2\n- [ ] b\n  after: 1", "wait for each other"),
    ("- [ ] a\n  files: ../b", "not in the workspace"), ("- [x] a\n", "no tasks"),
    ("- [ ] a\n" * 1_001, "at most 1000"),
])  # fmt: skip
async def test_plans_that_cannot_be(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        await decompose(text, no_model, 8_000, bytes_by_four)


JSON_PIECES = [
    '{"tasks": [', '{"title": "a"', '"after": [1]', '"files": "', "}", "]", ",", '"', "```json\n",
    "<think>", "</think>", "\ud800", "…", "\\u",
]  # fmt: skip


@given(st.lists(st.sampled_from(JSON_PIECES) | st.text(max_size=4), max_size=30).map("".join))
def test_any_answer_has_tasks_or_its_own_error(answer: str) -> None:
    with contextlib.suppress(ToolError):
        assert joined([read_tasks(answer)])


@pytest.mark.parametrize("piece", ["- [ ", "#", "`", "{", '{"', "[{", '"', "\\", "words and\n", "# A\n- b\n\n", ",", "<think>"])
def test_nothing_takes_long(piece: str) -> None:
    text = piece * (depth(60_000, 300_000) // len(piece))
    begun = time.process_time()
    preflight(text, 8_000, bytes_by_four)
    assert "".join(chunks(text, 1_000, bytes_by_four)) == text
    with contextlib.suppress(ToolError):
        read_tasks(text)
    assert time.process_time() - begun < 5
