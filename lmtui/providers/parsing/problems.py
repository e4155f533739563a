"""What a model is told when something that it meant as a call was none: short, with the wanted form of that tool."""

from __future__ import annotations

import json

from lmtui.core.messages import CallForm, ToolSpec
from lmtui.providers.parsing.names import parameters, required
from lmtui.providers.parsing.shapes import Refused


def problem_text(refused: Refused, specs: tuple[ToolSpec, ...], form: CallForm) -> str:
    """Return why nothing was run and how to call instead; the only names in it are tools and their own arguments."""
    if refused.spec is None:
        return f"Nothing was run: {refused.why}. The tools are: {', '.join(spec.name for spec in specs)}."
    return f"{refused.spec.name} was not run: {refused.why}. {wanted(refused.spec, form)}"


def wanted(spec: ToolSpec, form: CallForm) -> str:
    """Return how a tool is to be called."""
    names = required(spec) or tuple(parameters(spec))[:1]
    if form is CallForm.NATIVE:
        needs = f" with {' and '.join(names)}" if names else ""
        return f"Send the whole call again as a tool call of {spec.name}{needs}."
    call = json.dumps({"name": spec.name, "arguments": dict.fromkeys(names, "…")}, ensure_ascii=False)
    shown = f"<tool_call>{call}</tool_call>" if form is CallForm.TEXT else call
    return f"Send the whole call again as one JSON object, quotes and line breaks inside texts escaped:\n{shown}"
