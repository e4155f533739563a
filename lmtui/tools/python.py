"""Python that stays between calls: names, imports and data are there in the next one."""

from __future__ import annotations

from lmtui.core.interpreter import Ran
from lmtui.core.permissions import Access
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.tools.tool import Arguments, Tool, always, argument

MIN_TIMEOUT_S, MAX_TIMEOUT_S = 1, 600
_TITLE_CHARS = 120


class PythonArguments(Arguments):
    """What to run."""

    code: str = argument("", also=("source", "script", "input"))
    reset: bool = argument(default=False, also=("restart",), is_told=False)
    timeout: int = argument(60, also=("timeout_s", "timeout_seconds"), is_told=False)


async def _python(arguments: PythonArguments, context: ToolContext) -> ToolResult:
    if arguments.reset:
        await context.interpreter.close()
        if not arguments.code.strip():
            return ToolResult("The interpreter is a fresh one.", "reset")
    timeout_s = min(max(arguments.timeout, MIN_TIMEOUT_S), MAX_TIMEOUT_S)
    ran = await context.interpreter.run(arguments.code, timeout_s=timeout_s, on_output=context.on_output)
    text = "\n".join(part for part in (ran.output.rstrip("\n"), *_notes(ran, timeout_s), *ran.left) if part) or "(no output)"
    return ToolResult(text, _summary(ran), ok=ran.is_ok, images=ran.images if context.sees else ())


def _notes(ran: Ran, timeout_s: int) -> tuple[str, ...]:
    """Return what the model has to know beside the output."""
    notes = []
    if ran.images:
        notes.append(f"({len(ran.images)} picture{'s' if len(ran.images) > 1 else ''} shown)")
    if ran.is_timed_out:
        notes.append(f"(stopped after {timeout_s} s)")
    if ran.is_lost:
        notes.append("(the interpreter ended: all names are gone; the next call begins a fresh one)")
    elif ran.is_fresh:
        notes.append("(a fresh interpreter: names of earlier sessions are not there)")
    return tuple(notes)


def _summary(ran: Ran) -> str:
    if ran.is_lost:
        return "interpreter ended"
    return "timed out" if ran.is_timed_out else "" if ran.is_ok else "error"


async def _preview(arguments: PythonArguments, _: ToolContext) -> Preview:
    reset = "# in a fresh interpreter\n" if arguments.reset else ""
    return Preview(reset + arguments.code, limits=f"up to {min(max(arguments.timeout, MIN_TIMEOUT_S), MAX_TIMEOUT_S)} s")


PYTHON = Tool(
    name="python",
    description="Run Python; its names stay.",
    arguments=PythonArguments,
    run=_python,
    access=always(Access.EXECUTE),
    subject=lambda _: (),
    title=lambda arguments: " ".join(arguments.code.split())[:_TITLE_CHARS] or "reset",
    preview=_preview,
    aliases=("python_exec", "run_python", "execute_python", "pyexe", "ipython", "repl", "python_repl", "code_interpreter"),
)
