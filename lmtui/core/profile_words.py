"""What is known of a model from using or examining it, in words: the same on every screen."""

from __future__ import annotations

from lmtui.core.exams import ExamState, Grade
from lmtui.core.profiles import BY_HAND, ModelProfile

_SOURCES = {BY_HAND: "set by hand"}


def profile_facts(profile: ModelProfile) -> list[str]:
    """Return what is known, the weightiest first; nothing of what is not."""
    source = _SOURCES.get(profile.source, profile.source)
    facts = [f"calls: {profile.call_form} ({source})"] if profile.call_form else []
    facts += [f"edits: {profile.edit_form}"] if profile.edit_form else []
    facts += [speed_words(profile)] if speed_words(profile) else []
    facts += [f"window {profile.window_tokens:,} by probe"] if profile.window_tokens else []
    return facts


def exam_words(state: ExamState) -> str:
    """Return how an exam went in one line: what failed, else what is known now."""
    failed = next((row for row in state.rows if row.grade is Grade.FAILED), None)
    if failed is not None:
        return f"exam: {failed.text}" + (f"  {failed.hint}" if failed.hint else "")
    return f"exam: {', '.join(profile_facts(state.profile)) or 'nothing was found'} ({state.elapsed_s:.0f} s)"


def speed_words(profile: ModelProfile) -> str:
    """Return how fast a model reads and writes, empty where neither is known."""
    speeds = (("reads", profile.read_tokens_per_s), ("writes", profile.write_tokens_per_s))
    told = ", ".join(f"{verb} {speed:,.0f}" for verb, speed in speeds if speed)
    return f"{told} tokens/s" if told else ""
