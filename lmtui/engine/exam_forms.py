"""How well a model calls tools in each form, counted, and which form follows from that.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmtui.core.messages import CallForm, Completion

_CLEARLY = 2  # so many tasks more


@dataclass(slots=True)
class FormCounts:
    """What was counted of one form.

    Answers are counted by what they held: a structured call of the server's own, one found in the text, one that could not be
    read, or only words.  `why_not` says why it was not tried to the end.
    """

    tasks: int = 0
    right: int = 0
    structured: int = 0
    recovered: int = 0
    malformed: int = 0
    words: int = 0
    edit_form: str = ""
    why_not: str = ""

    def see(self, completion: Completion) -> None:
        """Count one answer."""
        calls = completion.message.tool_calls
        if any(not call.form for call in calls):
            self.structured += 1
        elif calls:
            self.recovered += 1
        elif completion.problem:
            self.malformed += 1
        else:
            self.words += 1

    @property
    def is_perfect(self) -> bool:
        """Tell whether all tasks were done, with no call that could not be read."""
        return self.tasks > 0 and self.right == self.tasks and not self.malformed and not self.why_not

    @property
    def briefly(self) -> str:
        """Return how it went in a few words."""
        return f"{self.right} of {self.tasks}" + (f" ({self.why_not})" if self.why_not else "")

    def told(self, form: CallForm) -> str:
        """Return the counts in words."""
        kinds = [(self.structured, "structured")]
        kinds += [(self.recovered, "found in the text" if form is CallForm.NATIVE else "read")]
        kinds += [(self.malformed, "malformed")]
        counts = ", ".join(f"{count} {word}" for count, word in kinds if count) or "none made"
        said = f"{self.right} of {self.tasks} tasks right, calls: {counts}" if self.tasks else ""
        return "; ".join(part for part in (said, self.why_not) if part)


def works_natively(counts: FormCounts) -> bool:
    """Tell whether native calls are all that is needed: structured, none in the text, all right."""
    return counts.is_perfect and counts.structured > 0 and not counts.recovered


def chosen(found: Mapping[CallForm, FormCounts]) -> tuple[CallForm | None, str]:
    """Return the form to use (None: no task was done in any), and why, with the counts.

    Native where it works, else text, else a schema; a schema in place of text where it is clearly better, and native calls in
    place of both where those do not do more.
    """
    native, text, schema = (found.get(form, FormCounts()) for form in (CallForm.NATIVE, CallForm.TEXT, CallForm.SCHEMA))
    is_native_usable = native.structured > native.recovered and not native.why_not
    held_is_better = schema.right >= text.right + _CLEARLY or (schema.right > text.right and (not text.right or text.malformed))
    if works_natively(native) or (is_native_usable and native.right > 0 and native.right >= max(text.right, schema.right)):
        form = CallForm.NATIVE
    elif held_is_better:
        form = CallForm.SCHEMA
    elif text.right:
        form = CallForm.TEXT
    else:
        return None, "in no form of calls was a task done"
    others = (f"{each} {counts.briefly}" for each, counts in found.items() if each is not form)
    return form, f"{form} {found[form].told(form)}" + "".join(f"; {other}" for other in others)
