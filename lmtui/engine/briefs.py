"""What a sub-agent is told, and what its parent is told of it: bounded texts, made from values alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import resources

from lmtui.core.child_words import cut, results_text
from lmtui.core.children import Brief, ChildKind, ChildResult
from lmtui.core.messages import Role
from lmtui.engine.entries import Entry

MAX_DATA_CHARS = 8_000
MAX_INLINED_FILES, MAX_INLINED_BYTES = 3, 8_000
_MAX_PARENT_CHARS = 400
_WORD = re.compile(r"\w{3,}")


def child_prompt(kind: ChildKind) -> str:
    """Return the fixed first message of a sub-agent; the same bytes for every task."""
    return resources.files("lmtui.engine").joinpath(f"prompts/{kind}_child.md").read_text(encoding="utf-8").strip()


def brief_text(brief: Brief, parent_objective: str, data: str, before: str) -> str:
    """Return a task as the first words to a sub-agent.

    Args:
        brief: the task.
        parent_objective: what the agent that sends it works on.
        data: what of the parent's results belongs to it.
        before: what came of the tasks that it depends on.
    """
    wanted = brief.deliverable
    paths = f" at {', '.join(wanted.paths)}" if wanted.paths else ""
    form = f" as {wanted.format}" if wanted.format else ""
    parts = [
        f"Your task: {brief.objective.strip()}",
        f"What is to come of it: a {wanted.type}{paths}{form}. {wanted.description}".strip(),
    ]
    if brief.constraints:
        parts.append("Hold to this:\n" + "\n".join(f"- {each}" for each in brief.constraints))
    if parent_objective:
        parts.append(f"It is a part of: {cut(parent_objective, _MAX_PARENT_CHARS)}")
    if before:
        parts.append(f"What came of the tasks before:\n{before}")
    if data:
        parts.append(f"What is known already:\n{data}")
    return "\n\n".join(parts)


def data_for(hint: str, entries: Sequence[Entry], limit_chars: int = MAX_DATA_CHARS) -> str:
    """Return those results of the parent's calls that have the words of a hint, best first, bounded; empty without a hint."""
    words = {word.lower() for word in _WORD.findall(hint)}
    if not words:
        return ""
    results = [entry for entry in entries if entry.message.role is Role.TOOL and entry.is_ok]
    scored = [(_score(words, entry), place, entry) for place, entry in enumerate(results)]
    found: list[str] = []
    left = limit_chars
    for score, _, entry in sorted(scored, key=lambda each: (-each[0], -each[1])):
        text = cut(f"[{entry.title}]\n{entry.message.text}", left)
        if score == 0 or left < len(entry.title) + 100:
            break
        found.append(text)
        left -= len(text) + 2
    return "\n\n".join(found)


def before_text(results: Sequence[ChildResult], files: Iterable[tuple[str, str]]) -> str:
    """Return what a sub-agent is told of the tasks that it depends on, with the text of some of their files."""
    return "\n\n".join([results_text(results), *(f'<file path="{path}">\n{text}\n</file>' for path, text in files)])


def _score(words: set[str], entry: Entry) -> int:
    text = f"{entry.title} {entry.message.text[:20_000]}".lower()
    return sum(word in text for word in words)
