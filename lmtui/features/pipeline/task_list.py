"""What a plan says in a form that needs no model: its tasks, where it is a list of them, and its open questions.

A task list is Markdown. Each task is a list item with a check box; below it come its description and its fields:

    ## Phase: parser                          optional: the phase of the tasks below it
    - [ ] Add a tokenizer
      More words about it, over as many lines as needed.
      files: src/tok.py, tests/test_tok.py    what it changes
      after: 1, 2                             the numbers, from 1, or titles of tasks that come first
      check: pytest -q tests/test_tok.py      a command that exits with 0 when the task is done
      check: python -m src.tok --self-test
      budget: 20 steps 50k tokens             what an attempt may spend in requests and tokens
    - [x] Done tasks are left out, and none waits for them

The values of a field may also be list items below it.  Anything else is prose.
"""

from __future__ import annotations

import json
import posixpath
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

import tomlkit
from pydantic import TypeAdapter, ValidationError

from lmtui.core.budgets import whole_budget
from lmtui.core.errors import UsageError
from lmtui.core.lenient_json import fit_text
from lmtui.core.sanitize import sanitize_line
from lmtui.features.pipeline.values import MAX_TITLE_CHARS, OpenQuestion, TaskSpec

_HEADING = re.compile(r"(#{1,6})\s++(.*)")
FENCE = re.compile(r"(?:[-*+]\s++)?(```+|~~~+)")
_BOX = re.compile(r"(?:[-*+]|\d{1,4}[.)])\s++\[(?P<mark>[ xX✓✔])\](?:\s++(?P<title>.*))?")
_NUMBER = re.compile(r"\A\[?(?:[^\W\d_]++\s++)?#?(\d{1,4})\]?\s*[.:)–—-]\s++")
_FIELD = re.compile(
    r"(?:[-*+]\s++)?[*_]*(?P<name>files?|after|depends[ _]on|checks?|budget(?=[*_]*\s*:.*\b(?:steps?|tok|tokens?)\b))"
    r"[*_]*\s*:[*_]*(?P<value>.*)",
    re.IGNORECASE,
)
_PHASE = re.compile(r"phase\b\s*[\w.]*\s*:\s*(.*)", re.IGNORECASE)
_BULLET = re.compile(r"(?:[-*+]|\d{1,4}[.)])\s++(.*)")
_EMPHASIS = re.compile(r"\A(\*\*|__|\*)(.+?)\1")
QUOTED = re.compile(r"`([^`]+)`")
_KEY = re.compile(r"[\W_]+")
_NONE = frozenset({"", "none", "nothing", "na", "null", "no", "keine", "ninguna", "aucune", "无"})


def read_task_list(text: str) -> list[TaskSpec] | None:
    """Return the tasks of a plan that is a task list, without the done ones; `after` counts from 1 in what is returned.

    Returns None for prose.

    Raises:
        UsageError: a task waits for one that is not in the list, or a budget cannot be read; the message names the line.
    """
    items, outside = _items(text)
    inside = sum(1 + len(each.lines) for each in items)
    return _specs(items) if items and (inside >= outside or any(each.fields for each in items)) else None


def open_questions(text: str) -> tuple[OpenQuestion, ...]:
    """Return the questions of a plan that are marked BLOCKING, with the answer where the next line is `Answer: …`.

    The mark begins the line (`- BLOCKING: …`, `Q1 (BLOCKING): …`), or is `**BLOCKING**` or `(BLOCKING)` anywhere in it.  Behind
    a line that only has the mark the next one is the question.
    """
    found: list[OpenQuestion] = []
    is_next, can_be_answered = False, False
    for words in (without_marks(line) for line, is_code in _lines(text) if not is_code):
        if can_be_answered and (answer := _ANSWER.fullmatch(words)):
            found[-1], can_be_answered = OpenQuestion(found[-1].text, plain(answer[1])), False
            continue
        is_marked = _MARKED.search(words) is not None
        question = plain(_QUESTION_NUMBER.sub("", _MARKED.sub(" ", words, count=1))) if is_marked or is_next else ""
        is_next = is_marked and not question
        can_be_answered = title_key(question) not in _NONE
        found += [OpenQuestion(question)] if can_be_answered else []
    return tuple(dict.fromkeys(found))


_MARKED = re.compile(r"\A[*_]*(?:Q\d{0,4}[*_]*\s*)?[(\[]?BLOCKING\b[)\]]?[*_]*[:.–—-]*|[*_(\[]{1,3}BLOCKING[*_)\]:]{1,4}")
_QUESTION_NUMBER = re.compile(r"\A[\s*_]*+Q\d{1,4}[*_]*\s*[.:)–—-]*")
_ANSWER = re.compile(r"[*_]*(?:Answer|A)[*_]*\s*:[*_]*(.*)", re.IGNORECASE)


def plain(text: str) -> str:
    """Return words without the marks, colons and dashes around them."""
    return fit_text(text).strip(" \t*_:–—-").strip()


def without_marks(line: str) -> str:
    """Return a line without the marks that begin a heading, a quotation or a list item."""
    at = 0
    while found := _MARKS.match(line, at):
        at = found.end()
    return line[at:]


_MARKS = re.compile(r"(?:[-+>]|\*(?=\s)|#{1,6}|\d{1,4}[.)]|\[[ xX]\])\s++|[>|]\s*+")


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines, stripped, that say something, each with whether it is in a fenced block."""
    for line, is_code in _raw_lines(text):
        if line.strip() and not FENCE.match(line.strip()):
            yield line.strip(), is_code


def _raw_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield all lines, each with whether it is in a fenced block or at its edge."""
    fence = ""
    for raw in text.split("\n"):
        if found := FENCE.match(line := raw.strip()):
            yield raw, True
            fence = "" if fence and line.startswith(fence) else fence or found[1]
        else:
            yield raw, bool(fence)


@dataclass(slots=True)
class _Item:
    """A task as it is written.

    `number` is its own or 0; `fields` are by their first letter, each value with that of its line.
    """

    line: int
    indent: int
    title: str
    number: int
    is_done: bool
    phase: str
    lines: list[str] = field(default_factory=list)
    fields: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    pending: str = ""  # the field whose values are on the lines below it

    def take(self, number: int, raw: str, line: str) -> None:
        """Tell fields from text; of code `line` is empty."""
        if found := _FIELD.fullmatch(line):
            name, value = found["name"].lower()[0].replace("d", "a"), found["value"].strip()
            self.pending = "" if value else name
            self.fields.setdefault(name, []).extend([(number, value)] if value else [])
        elif self.pending and (bullet := _BULLET.fullmatch(line)) and not _BOX.fullmatch(line):
            self.fields[self.pending].append((number, bullet[1]))
        elif raw.strip() or not self.pending or self.fields[self.pending]:
            self.pending = ""
            self.lines.append(raw.rstrip())


def _items(text: str) -> tuple[list[_Item], int]:
    """Return the items of a task list, and how many lines say something outside of them."""
    items: list[_Item] = []
    item: _Item | None = None
    outside, phase, phase_level = 0, "", 0
    for number, (raw, is_code) in enumerate(_raw_lines(text), 1):
        line = "" if is_code else raw.strip()
        indent = len(raw) - len(raw.lstrip()) + 3 * (len(raw) - len(raw.lstrip("\t")))
        opened, heading = _BOX.fullmatch(line), _HEADING.fullmatch(line)
        if opened and (item is None or indent <= item.indent):
            own = _NUMBER.match(_emphasis_off(opened["title"] or ""))
            title = _emphasis_off(_NUMBER.sub("", _emphasis_off(opened["title"] or ""))).removesuffix(":").strip()
            item = _Item(number, indent, fit_text(title), int(own[1]) if own else 0, opened["mark"] != " ", phase)
            items += [item] if title and not _MARKED.match(title) else []
        elif heading:
            item, level = None, len(heading[1])
            if found := _PHASE.fullmatch(_emphasis_off(heading[2])):
                phase, phase_level = fit_text(found[1].strip()), level
            elif level <= phase_level:
                phase, phase_level = "", 0
        elif item is not None:
            item.take(number, raw, line)
        else:
            outside += bool(line)
    return items, outside


def _emphasis_off(text: str) -> str:
    return _EMPHASIS.sub(r"\2", text.strip()).strip()


def _specs(items: Sequence[_Item]) -> list[TaskSpec]:
    own = {each.number: each for each in items}
    by_number = own if len(own) == len(items) and 0 not in own else dict(enumerate(items, 1))
    by_title = {title_key(each.title): each for each in reversed(items)}
    places = {each.line: place for place, each in enumerate((each for each in items if not each.is_done), 1)}

    def placed(item: _Item) -> Iterator[int]:
        for line, value in item.fields.get("a", ()):
            for name in waited_for(value, lambda name: title_key(name) in by_title):
                found = by_title.get(title_key(name)) or by_number.get(task_number(name))
                if found is None:
                    raise UsageError(f"line {line}: after names {sanitize_line(name)[:60]!r}, which is not a task of this list")
                if found is not item and not found.is_done:
                    yield places[found.line]

    return [_spec(each, tuple(dict.fromkeys(placed(each)))) for each in items if not each.is_done]


def _spec(item: _Item, after: tuple[int, ...]) -> TaskSpec:
    text = fit_text(textwrap.dedent("\n".join(item.lines)).strip())
    files = [path for _, value in item.fields.get("f", ()) for path in paths_in(value)]
    checks = [command for _, value in item.fields.get("c", ()) for command in commands_in(value)]
    if "c" in item.fields and not checks:
        raise UsageError(f"line {item.line}: a check has no command", "Write the command after `check:`.")
    title, text = fitted_title(item.title, text)
    steps, tokens = 0, 0
    for line, value in item.fields.get("b", ()):
        try:
            budget = whole_budget(_THOUSANDS.sub("", value.strip(" `*_.")))
            if budget.seconds:
                raise UsageError("the budget of a task has steps and tokens, but no time", "Write it like 20 steps 50k tokens.")
        except UsageError as error:
            raise UsageError(f"line {line}: {error}", error.hint) from error
        steps, tokens = budget.steps or steps, budget.tokens or tokens
    return TaskSpec(title, text, tuple(dict.fromkeys(files)), after, tuple(dict.fromkeys(checks)), item.phase, steps, tokens)


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


def task_item(spec: TaskSpec) -> str:
    """Return a task as an item of a task list, with the numbers of that list after `after`."""
    lines = [f"files: {', '.join(f'`{each}`' for each in spec.files)}"] if spec.files else []
    lines += [f"after: {', '.join(map(str, spec.after))}"] if spec.after else []
    lines += [*(f"check: {each}" for each in spec.checks), *([f"budget: {spec.budget}"] if spec.budget else [])]
    lines += spec.text.splitlines()
    return "".join((f"- [ ] {spec.title}\n", *(f"  {line}".rstrip() + "\n" for line in lines)))


def fitted_title(title: str, text: str) -> tuple[str, str]:
    """Return a title of an allowed length, and the text; a longer title is whole at the beginning of the text."""
    if len(title) <= MAX_TITLE_CHARS:
        return title, text
    return f"{title[: MAX_TITLE_CHARS - 1]}…", f"{title}\n\n{text}".strip()


def title_key(title: str) -> str:
    """Return a title as titles are compared: without case, blanks and punctuation."""
    return _KEY.sub("", title.casefold())


def task_number(name: str) -> int:
    """Return the number that a reference to a task is (`2`, `#2`, `task 2`), 0 where it is none."""
    found = re.fullmatch(r"(?:(?:task|step|item|nr|no|t|s)?[\s._-]*)#?(\d{1,4})\.?", name.strip(), re.ASCII | re.IGNORECASE)
    return int(found[1]) if found else 0


def waited_for(value: str, is_title: Callable[[str], bool]) -> list[str]:
    """Return the tasks that a text names, by number or title; a title may contain commas."""
    if title_key(value) in _NONE:
        return []
    names = [value] if is_title(value) else [*filter(None, map(str.strip, re.split("[,;]", value)))]
    if len(names) == 1 and re.fullmatch(r"[#\d\s]+(?:(?:and|&)[#\d\s]+)*", names[0]):
        return re.findall(r"\d+", names[0])
    return [plain(each.strip("`\"'")) for each in names]


def paths_in(value: str) -> list[str]:
    """Return the paths that a text lists, relative where they can be: quoted with backticks, or parted by commas or blanks."""
    found = QUOTED.findall(value)
    for each in [] if found else re.split("[,;]", value):
        words = re.sub(r"\s\([^()]*\)\s*\Z", "", each.strip()).split()
        found += words if all("." in word or "/" in word for word in words) else [" ".join(words)]
    return [path for each in found if (path := _path(each))]


def _path(text: str) -> str:
    text = fit_text(text).strip(" \t`\"'").replace("\\", "/")
    text = re.sub(r":\d+(?:-\d+)?\Z", "", text)
    return posixpath.normpath(text) if title_key(text) not in _NONE else ""


def commands_in(value: str) -> list[str]:
    """Return the commands of a text: those in backticks where it begins with one or with run and one, else all of it."""
    value = fit_text(value).strip()
    found = QUOTED.findall(value) if re.match(r"(?:run:?\s*)?`", value, re.IGNORECASE) else [value]
    return [command for each in found if (command := each.strip("` \t").removeprefix("$ ").strip())]


_CRITERION = re.compile(r"[*_`]*AC[-_]?(\d{1,4})\b[*_`]*\s*[:.)|–—-]*[*_]*\s*(.*)", re.IGNORECASE)
_CHECK = re.compile(r"(?:\A|[(,;])[*_]*check[*_]*\s*:[*_]*\s*(.*)", re.IGNORECASE)


def criteria_checks(text: str) -> list[str]:
    """Return the commands that exit with 0 when the acceptance criteria of a specification are met, at most one for each."""
    found, number = dict[int, str](), 0
    for line in (line for line, is_code in _lines(text) if not is_code):
        words = without_marks(line)
        if begun := _CRITERION.fullmatch(words):
            number, words = int(begun[1]), begun[2]
        elif line.startswith("#"):
            number = 0
        if number and (check := _CHECK.search(words)) and (commands := commands_in(check[1])):
            found.setdefault(number, commands[0])
    return [*found.values()]


def spec_text(spec: TaskSpec) -> str:
    """Return the text of a task."""
    document = tomlkit.document()
    for name, value in asdict(spec).items():
        document[name] = tomlkit.string(value, multiline=True) if name == "text" else tomlkit.item(value)
    return tomlkit.dumps(document).replace("\r\n", "\\r\n").encode("utf-8", "replace").decode()


def read_spec(text: str, spec: TaskSpec) -> TaskSpec:
    """Return a task as a text has it; what the text leaves out stays.

    Raises:
        UsageError: the text is not one of a task; it says what is wrong.
    """
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = str(error).replace("at end of document", f"at line {len(text.splitlines())}, the last one")
        raise UsageError(f"not valid TOML: {sanitize_line(problem)}") from error
    known = asdict(spec)
    if unknown := sorted(found.keys() - known.keys()):
        raise UsageError(f"a task has no {sanitize_line(unknown[0])[:40]!r}, only {', '.join(known)}")
    try:
        return TypeAdapter(TaskSpec).validate_json(json.dumps(known | found, default=str), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
