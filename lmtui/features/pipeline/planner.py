"""From a plan's text to its tasks: as the plan lists them, else as a model writes them, part by part.  No I/O.

The model sees a part of the plan at a time and answers with JSON.  What a task waits for is known by title until all parts are
joined, so that a task may wait for one of an earlier part.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from posixpath import basename
from typing import Annotated

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from lmtui.core.errors import Fault, LmtuiError, ProviderError, ToolError, UsageError
from lmtui.core.lenient_json import fit_text, line_of, text_of, texts_of, without_commas
from lmtui.core.permissions.shell_grammar import word_set
from lmtui.core.ports import TokenCounter
from lmtui.core.sanitize import sanitize, sanitize_line, sanitize_path
from lmtui.features.pipeline.task_list import (
    QUOTED,
    commands_in,
    fitted_title,
    open_questions,
    paths_in,
    read_task_list,
    task_number,
    title_key,
    waited_for,
)
from lmtui.features.pipeline.values import MAX_TEXT_CHARS, TaskSpec, is_outside, plan_id, problem_of

_WINDOW_RATIO, _RESERVED_TOKENS = 0.85, 256
_TITLES_RATIO = 0.1  # the titles of earlier parts take at most this part of the window
_MAX_EXCERPT_CHARS = 3_000
_LEAST_TOKENS = 200  # of a part: one that is smaller is not cut

FORM = '{"tasks": [{"title": "…", "description": "…", "files": ["…"], "after": [], "check": "…"}]}'
PLANNER_SYSTEM = (
    "You split a plan into small tasks. Each task changes one or two files. Leave out nothing of the plan and add nothing.\n"
    "`description`: what to do, with all names, numbers and rules that the plan gives. `files`: paths of files that the task "
    "changes or creates. `after`: numbers of tasks (the first is 1) that must be done before. `check`: one shell command that "
    "fails until the task is done, or an empty text.\n"
    f"Answer with JSON only: {FORM}"
)


def _schema_of(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
_REFERENCES = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}
_TASK = _schema_of(title=_TEXT, description=_TEXT, files=_TEXTS, after=_REFERENCES, check=_TEXT)
TASKS_SCHEMA: Mapping[str, object] = _schema_of(tasks={"type": "array", "items": _TASK})

Ask = Callable[[str, str, Mapping[str, object]], Awaitable[str | None]]
"""Asks a model: system prompt, prompt and JSON schema; returns its answer, None where it did not answer."""


def planner_prompt(plan_text: str, survey: str = "", previous: Sequence[str] = (), part: str = "The plan") -> str:
    """Return what the planner is asked about a part of a plan; `previous` are titles of tasks of earlier parts."""
    titles = "\n".join(f"- {sanitize_line(each)}" for each in previous)
    known = f"Tasks from earlier parts. Do not repeat them; name them in `after` by their titles:\n{titles}"
    parts = [survey, known if titles else "", f"{part}:\n\n{plan_text.strip()}", "Write the tasks of this as JSON now."]
    return "\n\n".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A task of one answer of the planner: `spec` without `after`, and what it says of the tasks that come first."""

    spec: TaskSpec
    after: tuple[str, ...] = ()


_STARTS = re.compile(r'[{]\s*+["}]|\[\s*+[\[{"\]]')
_LIST_MARK = re.compile(r"\A\s*(?:[-*•]|(?:task|step)?\s*\d{1,4}\s*[.):])\s+", re.IGNORECASE)
_PLACEHOLDERS = frozenset({"", "title", "tasktitle", "string"})
_Texts = Annotated[tuple[str, ...], BeforeValidator(texts_of)]


class _WrittenTask(BaseModel):
    """A task as a model writes it: by the schema, or with a near name of a key."""

    title: Annotated[str, BeforeValidator(line_of)] = Field("", validation_alias=AliasChoices("title", "name", "task"))
    text: Annotated[str, BeforeValidator(text_of)] = Field("", validation_alias=AliasChoices("description", "details", "text"))
    files: _Texts = Field((), validation_alias=AliasChoices("files", "file_paths", "file"))
    after: _Texts = Field((), validation_alias=AliasChoices("after", "depends_on", "dependencies"))
    checks: _Texts = Field((), validation_alias=AliasChoices("check", "checks", "verification"))
    phase: Annotated[str, BeforeValidator(line_of)] = ""


def read_tasks(answer: str, *, may_be_empty: bool = False) -> list[TaskDraft]:
    """Return the tasks of a planner's answer: JSON as it is, fenced, or between prose and behind `<think>`.

    A task that is there twice counts once.  Files outside of the workspace and tasks that it waits for but that do not exist
    are named in its text instead; checks that are prose are left out.  An answer that `may_be_empty` can say that there are no
    tasks, by an empty list.

    Raises:
        ToolError: the answer has no tasks, is not whole JSON, or its tasks cannot be done; says what is wrong and the form.
    """
    values = _values(answer.rpartition("</think>")[2].partition("<think>")[0])
    written = (_WrittenTask.model_validate(each) for value in values for each in _tasks_in(value))
    drafts = [TaskDraft(spec, each.after) for each in written if title_key((spec := _spec(each)).title) not in _PLACEHOLDERS]
    if may_be_empty and not drafts and any(value in ([], {"tasks": []}) for value in values):
        return []
    if not drafts:
        raise ToolError("there are no tasks in your answer.", f"Answer with {FORM}")
    if problem := problem_of(joined([drafts])):
        raise ToolError(f"these tasks cannot be done: {problem}.", f"Answer with {FORM}")
    return drafts


def _values(text: str) -> list[object]:
    """Return the JSON values between other words; one that is not whole is an error, whatever is behind it."""
    decoder = json.JSONDecoder(strict=False)
    for written in (text, without_commas(text)):
        values, at = list[object](), 0
        with contextlib.suppress(ValueError, RecursionError):
            while found := _STARTS.search(written, at):
                value, at = decoder.raw_decode(written, found.start())
                values.append(value)
            return values
    raise ToolError("the JSON in your answer is not complete.", f"Answer with {FORM}")


def _tasks_in(value: object) -> list[Mapping[str, object]]:
    """Return the tasks of a value: a list of them, an object with `tasks`, or a task."""
    tasks = value.get("tasks", [value]) if isinstance(value, Mapping) else value
    return [each for each in tasks if isinstance(each, Mapping)] if isinstance(tasks, list) else []


def _spec(given: _WrittenTask) -> TaskSpec:
    title = _LIST_MARK.sub("", given.title or " ".join(given.text.split("\n")[0].split()))
    title, text = fitted_title(title, "" if title_key(given.text) in ("", title_key(title)) else given.text)
    files = tuple(dict.fromkeys(path for value in given.files for path in paths_in(value)))
    outside = [path for path in files if is_outside(path) or title_key(path) in _PLACEHOLDERS]
    notes = [f"Left out: {sanitize_line(path)[:100]} is not in the workspace." for path in outside if title_key(path)]
    lines = (line for value in given.checks for line in value.splitlines())
    checks = (each for line in lines for each in (*commands_in(line), *QUOTED.findall(line)) if is_check(each))
    inside = tuple(path for path in files if path not in outside)
    return TaskSpec(title, "\n".join([text, *notes]).strip(), inside, (), tuple(dict.fromkeys(checks)), given.phase)


_NEVER_FAIL, _OPERATORS = word_set("true exit echo printf pwd cd mkdir touch"), word_set("&& || | ;")
_PROSE = word_set(
    "the a an that this should must is are was be been it its sure works work passes succeeds exists correctly successfully "
    "manual manually verify ensure none of and when with"
)


def is_check(text: str) -> bool:
    """Tell whether a text is a command that can fail, rather than prose about one: its words decide."""
    try:
        words = shlex.split(text)
    except ValueError:  # an open quote, as in prose
        return False
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0]):
        words = words[1:]
    if not words or "…" in text or "\0" in text or not re.fullmatch(r"[a-z0-9_./~+-][A-Za-z0-9_./~+-]*|\[", words[0]):
        return False
    is_prose = bool(_PROSE & {word.casefold().strip(".,") for word in words})
    is_foreign = any(not word.isascii() and not re.search(r"[\s./=-]", word) for word in words)
    return not is_prose and not is_foreign and (words[0] not in _NEVER_FAIL or bool(_OPERATORS & {*words}))


def joined(parts: Sequence[Sequence[TaskDraft]]) -> dict[int, TaskSpec]:
    """Return the tasks of all parts, numbered from 1, each waiting for numbers.

    What a task waits for is looked up by title, then by number, in its own part, then by title in all parts, then as the name
    of a file: that means the first task on it.  A task that is there twice counts once.
    """
    numbers: dict[tuple[str, ...], int] = {}
    drafts: dict[int, tuple[TaskDraft, dict[str | int, int]]] = {}
    everywhere: dict[str | int, int] = {}
    by_file: dict[str | int, int] = {}
    for part in parts:
        own: dict[str | int, int] = {}
        for place, draft in enumerate(part, 1):
            key = title_key(draft.spec.title)
            number = own[place] = numbers.setdefault((key, *draft.spec.files), len(numbers) + 1)
            drafts.setdefault(number, (draft, own))
            own.setdefault(key, number)
            everywhere.setdefault(key, number)
            for name in (name for path in draft.spec.files for name in (path, basename(path))):
                by_file.setdefault(title_key(name), number)
    specs: dict[int, TaskSpec] = {}
    for number, (draft, own) in drafts.items():
        names = [name for each in draft.after for name in waited_for(each, lambda name: title_key(name) in everywhere)]
        named: dict[str, int] = {}
        for name in filter(title_key, names):
            keys = ((own, title_key(name)), (own, task_number(name)), (everywhere, title_key(name)), (by_file, title_key(name)))
            named[name] = next((known[key] for known, key in keys if key in known), 0)
        lost = [_LOST.format(sanitize_line(each)[:100]) for each in named if not named[each]]
        after = tuple(dict.fromkeys(each for each in named.values() if each not in (0, number)))
        text = "\n".join(filter(None, (draft.spec.text, *lost)))
        specs[number] = replace(draft.spec, text=text, after=after)
    return specs


_LOST = "Left out: it was to wait for {!r}, which is not a task."


def chunks(text: str, most_tokens: int, count_tokens: TokenCounter, level: int = 0) -> list[str]:
    """Return a text in parts of at most so many tokens, cut at headings, else list items, paragraphs, lines, anywhere.

    The parts joined are the text.  `level` says where to cut first, as in `_units`; after its last one a text is cut in half.
    """
    if len(text) < 2 or count_tokens(text) <= max(1, most_tokens):
        return [text]
    half = len(text) // 2
    parts, part, spent = list[str](), "", 0
    for unit in _units(text, level) if level <= _LINES else (text[:half], text[half:]):
        price = count_tokens(unit) + 1
        if part and spent + price > most_tokens:
            parts += chunks(part, most_tokens, count_tokens, level + 1)
            part, spent = "", 0
        part, spent = part + unit, spent + price
    return parts + chunks(part, most_tokens, count_tokens, level + 1)


_PARAGRAPHS, _LINES = 3, 4
_CUTS = (re.compile(r"#{1,2}\s"), re.compile(r"#{1,6}\s"), re.compile(r"(?:[-*+]|\d{1,4}[.)])\s"))


def _units(text: str, level: int) -> Iterator[str]:
    """Yield the chapters, sections, list items, paragraphs or lines (level 0 to 4) of a text; none ends in a fenced block."""
    unit: list[str] = []
    fence, is_blank = "", False
    for line in text.splitlines(keepends=True):
        is_cut = level == _LINES or (not fence and (is_blank if level == _PARAGRAPHS else bool(_CUTS[level].match(line))))
        if unit and is_cut:
            yield "".join(unit)
            unit = []
        unit.append(line)
        is_blank, stripped = not line.strip(), line.lstrip()
        if stripped.startswith(fence or ("```", "~~~")):
            fence = "" if fence else stripped[:3]
    yield "".join(unit)


def with_excerpts(drafts: Sequence[TaskDraft], part: str) -> list[TaskDraft]:
    """Return tasks with what a part of the plan says of their files in their texts; a short part is whole where it names none.

    Small models leave out details when they describe a task.
    """
    found: list[TaskDraft] = []
    for draft in drafts:
        names = {name for path in draft.spec.files for name in (path, basename(path))}
        excerpt = "\n\n".join(_about(part, names)) or part.strip()
        text = f"{draft.spec.text}\n\nFrom the plan (do only this task):\n\n{excerpt}".strip()
        is_apt = len(excerpt) <= _MAX_EXCERPT_CHARS and len(text) <= MAX_TEXT_CHARS and excerpt not in draft.spec.text
        found.append(replace(draft, spec=replace(draft.spec, text=text)) if is_apt else draft)
    return found


def _about(part: str, names: Collection[str]) -> Iterator[str]:
    """Yield the sections that name a file; of one that does so only in list items, its beginning and these items."""
    for section in _units(part, 1):
        head, *items = _units(section, 2)
        named = items if _names(head, names) else [item for item in items if _names(item, names)]
        if named or _names(head, names):
            yield "".join((head, *named)).strip()


def _names(text: str, names: Collection[str]) -> bool:
    return any(name in text and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text) for name in names)


def room_for_plan(window_tokens: int, count_tokens: TokenCounter, survey: str = "") -> int:
    """Return how many tokens of a plan fit into one prompt of the planner, next to the survey and titles of earlier tasks."""
    prompt = count_tokens(PLANNER_SYSTEM) + count_tokens(planner_prompt("", survey)) + int(window_tokens * _TITLES_RATIO)
    return int(window_tokens * _WINDOW_RATIO) - _RESERVED_TOKENS - prompt


async def decompose(
    text: str,
    ask: Ask,
    window_tokens: int,
    count_tokens: TokenCounter,
    *,
    survey: str = "",
    known: Mapping[str, str] | None = None,
    keep: Callable[[str, str], Awaitable[None]] | None = None,
) -> dict[int, TaskSpec]:
    """Return the tasks of a plan, by number from 1.

    A task list needs no model.  Else each part of the plan is asked about, once more with what was wrong
    where the answer cannot be used; then its halves are.  `keep` gets the digest of a part with its
    answer, which `known` gives back when planning is tried again.  A survey that leaves less room than
    itself is left out.

    Raises:
        UsageError: the plan is impossible, or the model's window is small.
        LmtuiError: the model does not answer, or with something that cannot be used.
    """
    listed = read_task_list(text)
    if listed is not None:
        return _possible(dict(enumerate(listed, 1)), "Change the plan.")
    survey = survey if room_for_plan(window_tokens, count_tokens, survey) > count_tokens(survey) else ""
    room = room_for_plan(window_tokens, count_tokens, survey)
    if room < _LEAST_TOKENS:
        raise UsageError(f"the model's window of {window_tokens:,} tokens is too small to plan with", _BY_HAND)
    parts: list[list[TaskDraft]] = []
    rest = [part for part in chunks(text, room, count_tokens) if part.strip()]
    while rest:
        part = rest.pop(0)
        digest, is_all = plan_id(part), not parts and not rest
        with contextlib.suppress(ToolError):  # where it was not planned before
            parts.append(with_excerpts(read_tasks((known or {}).get(digest, ""), may_be_empty=True), part))
            continue
        titles = _titles(parts, int(window_tokens * _TITLES_RATIO), count_tokens)
        prompt = planner_prompt(part, survey, titles, "The plan" if is_all else _PART)
        try:
            answer, drafts = await _answer(ask, prompt, may_be_empty=not is_all)
        except ToolError as error:
            halves = chunks(part, count_tokens(part) * 3 // 5, count_tokens)
            if count_tokens(part) < 2 * _LEAST_TOKENS or len(halves) < 2:
                told = f"the model wrote no usable task list: {error}"
                raise ProviderError(Fault.REJECTED, told, f"Try again or use another model. {_BY_HAND}") from error
            rest[:0] = [half for half in halves if half.strip()]
            continue
        parts.append(with_excerpts(drafts, part))
        if keep is not None:
            await keep(digest, answer)
    return _possible(joined(parts), "Try again, or use another model for the role planner.")


_BY_HAND = (
    "Or write the tasks into the plan yourself, each as `- [ ] Title` with lines `files:`, `after:` and `check:` below it."
)


def _possible(specs: dict[int, TaskSpec], hint: str) -> dict[int, TaskSpec]:
    if problem := problem_of(specs):
        raise UsageError(f"the plan cannot be carried out: {problem}", hint)
    return specs


_PART = 'A part of the plan (answer {"tasks": []} where it asks for nothing to be done)'


async def _answer(ask: Ask, prompt: str, *, may_be_empty: bool) -> tuple[str, list[TaskDraft]]:
    """Return an answer with its tasks; one that cannot be used is asked for once more, with what was wrong.

    Raises:
        ToolError: two answers cannot be used.
        LmtuiError: the model did not answer.
    """
    problem = ""
    for _ in range(2):
        told = f"{prompt}\n\nYour last answer could not be used: {problem}" if problem else prompt
        answer = await ask(PLANNER_SYSTEM, told, TASKS_SCHEMA)
        if answer is None:
            raise LmtuiError(
                "the model did not answer, so the plan has no tasks yet", "Check the model server, then try again."
            )
        try:
            return answer, read_tasks(answer, may_be_empty=may_be_empty)
        except ToolError as error:
            problem = error.full_text()
    raise ToolError(problem)


def _titles(parts: Sequence[Sequence[TaskDraft]], most_tokens: int, count_tokens: TokenCounter) -> list[str]:
    """Return the titles so far, the last ones if not all fit."""
    titles: list[str] = []
    for title in dict.fromkeys(draft.spec.title for part in reversed(parts) for draft in reversed(part)):
        most_tokens -= count_tokens(title) + 2
        if most_tokens < 0:
            break
        titles.insert(0, title)
    return titles


def preflight(text: str, window_tokens: int, count_tokens: TokenCounter) -> list[tuple[str, str, object]]:
    """Return what is known of a plan before the work: name, words and value, of size, fit, tasks, questions, problems."""
    room = room_for_plan(window_tokens, count_tokens)
    tokens = count_tokens(text)
    rows: list[tuple[str, str, object]] = [("tokens", f"{tokens:,} of {window_tokens:,} in the window", tokens)]
    try:
        listed = read_task_list(text)
        problem = problem_of(dict(enumerate(listed, 1))) if listed is not None else ""
    except UsageError as error:
        listed, problem = [], str(error)
    if listed is None and room < _LEAST_TOKENS:
        problem = "the model's window is too small to plan with"
    elif listed is None:
        parts = sum(bool(each.strip()) for each in chunks(text, room, count_tokens))
        rows.append(("fits", "yes" if parts == 1 else f"no: the model is asked about {parts} parts", parts == 1))
    questions = open_questions(text)
    left, is_list = sum(not each.answer for each in questions), listed is not None
    rows += [
        ("task list", "yes: no model is needed to plan it" if is_list else "no: a model makes the tasks", is_list),
        ("tasks", f"{len(listed):,}", len(listed)) if listed is not None else ("tasks", "not known yet", None),
        ("questions", f"{len(questions):,}, {left:,} open", {"all": len(questions), "open": left}),
    ]
    prose = [(n, each) for n, spec in enumerate(listed or (), 1) for each in spec.checks if not is_check(each)]
    problems = [problem] if problem else []
    doubt = "the check of task {} does not look like a command that can fail: {}"
    problems += [doubt.format(number, sanitize_line(check)[:100]) for number, check in prose]
    return [*rows, *(("problem", each, each) for each in problems)]


IDEATE_TASK = """\
Help the user to specify this: {topic}

1. Look at the folder first, if it has files.
2. {questions}
3. Then write SPEC.md: the goal in two sentences, what is in and out of scope, and numbered acceptance criteria. Write each \
criterion as a list item `- AC-1: what must be true`, and below it `  check: COMMAND` with a shell command that exits with 0 \
when it is met, where one is possible.
4. Write what is still open as `BLOCKING: question`, one per line.
Write nothing but SPEC.md, and implement nothing."""
_ASKS = (
    "Ask one question at a time, the most important first, each with the answer that you suggest. Stop after each question and "
    "wait for the answer. Ask at most ten."
)
_ASKS_NOBODY = "Nobody can answer questions now. Decide what is safe to decide; what is not goes into point 4."


def ideate_task(topic: str, *, is_attended: bool = True) -> str:
    """Return the task that turns a topic into SPEC.md, by questions to the user where one is there."""
    return IDEATE_TASK.format(topic=topic.strip(), questions=_ASKS if is_attended else _ASKS_NOBODY)


MANIFESTS = (
    "README.md", "pyproject.toml", "setup.py", "requirements.txt", "package.json", "go.mod", "Cargo.toml", "pom.xml",
    "build.gradle", "build.gradle.kts", "Package.swift", "Gemfile", "composer.json", "mix.exs", "CMakeLists.txt", "Makefile",
)  # fmt: skip
_PATH = re.compile(r"[\w.+-]{1,100}(?:/[\w.+-]{1,100})*")


def files_to_read(files: Sequence[str], plan_text: str, most: int = 12) -> list[str]:
    """Return the files of which a survey shows the beginning: manifests, the topmost first, then files that the plan names."""
    named = {each.rstrip(".") for each in _PATH.findall(plan_text)}
    manifests = [path for path in files if PurePosixPath(path).name in MANIFESTS]
    manifests.sort(key=lambda path: (path.count("/"), MANIFESTS.index(PurePosixPath(path).name), path))
    wanted = [path for path in files if path in named or PurePosixPath(path).name in named]
    return [*dict.fromkeys((*manifests[: most // 2], *wanted))][:most]


def survey_text(files: Sequence[str], excerpts: Mapping[str, str], most_chars: int) -> str:
    """Return what a workspace looks like: its files, the topmost first, then excerpts; both are cut to fit.

    Args:
        files: paths relative to the workspace.
        excerpts: beginnings of files by path, the most important first.
        most_chars: the most characters of the result.
    """
    if not files:
        return ""
    paths = sorted(map(sanitize_path, files), key=lambda path: (path.count("/"), path))
    parts = [_shortened("\n".join(("Files of the workspace:", *paths)), most_chars // (2 if excerpts else 1))]
    left = most_chars - len(parts[0])
    for place, (path, text) in enumerate(excerpts.items()):
        title = f"\n\n{sanitize_path(path)} begins:\n"
        share = left // (len(excerpts) - place) - len(title)
        if share > 0 and text.strip():
            parts.append(title + _shortened(sanitize(fit_text(text)).rstrip(), share))
            left -= len(parts[-1])
    return "".join(parts)[: max(0, most_chars)]


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(0, most - 2)]}\n…"
