"""Commands of the pipeline: work through a plan file, show its tasks, do something with one of them."""

from __future__ import annotations

from collections.abc import Iterable

from lmtui.commands.command import AskYes, Begin, Command, CommandContext, OpenView, Output, Result, Scope
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.pipeline.planner import ideate_task
from lmtui.features.pipeline.values import PipelinePlan, TaskAction, WorkspacePipeline, is_planning, status_lines

_WITH_NUMBER = ("retry", "skip", "answer")


async def pipeline(context: CommandContext, words: str) -> Result:
    """Work through a plan, do something with the newest one, or show it."""
    plans = context.host.extensions[WorkspacePipeline]
    verb, _, rest = words.strip().partition(" ")
    match verb:
        case "status" if not rest:
            return Output(tuple(status_lines(await plans.read())), title="Pipeline")
        case "stop" if not rest:
            await plans.stop()
            return Output(("Stopped the pipeline. /pipeline resume continues it.",))
        case "pause" | "resume" if not rest:
            await plans.pause((await _newest(plans)).id, is_paused=verb == "pause")
            return Output((f"{verb.capitalize()}d the pipeline.",))
        case _ if verb in _WITH_NUMBER:
            return await _do(plans, verb, rest.strip())
        case "ideate":
            return await ideate(context, rest)
        case "":
            await plans.read()
            return _shown(plans)
        case _:
            question = await plans.check_plan(words.strip())

            async def begin() -> Result:
                await plans.begin(words.strip())
                return _shown(plans)

            return AskYes(*question, begin, yes="start")


def _shown(plans: WorkspacePipeline) -> OpenView:
    async def lines() -> Iterable[str]:
        planning = ("Reading the plan; work on its tasks begins then. /pipeline status shows them.",)
        return planning if is_planning(plans) else status_lines(plans.known)

    return OpenView("pipeline.show", text=lines)


async def _newest(plans: WorkspacePipeline) -> PipelinePlan:
    found = await plans.read()
    if not found:
        raise UsageError("no plans yet", "/pipeline PLAN.md works through a plan file.")
    return found[0]


async def _do(plans: WorkspacePipeline, verb: str, words: str) -> Output:
    number, _, text = words.partition(" ")
    if not number.isdecimal() or bool(text.strip()) != (verb == "answer"):
        wanted = "N TEXT, a question's number and the answer" if verb == "answer" else "N, the number of a task"
        raise UsageError(f"/pipeline {verb} takes {wanted}: {sanitize_line(words)[:60]!r}", "/pipeline status lists them.")
    plan = await _newest(plans)
    if verb == "answer":
        await plans.answer(plan.id, int(number), text.strip())
        return Output((f"Answered question {number}.",))
    await plans.do(plan.id, int(number), TaskAction(verb))
    return Output((f"Task {number} is ready again." if verb == "retry" else f"Skipped task {number}.",))


async def ideate(_context: CommandContext, topic: str) -> Begin:
    """Have the model ask about a topic, then write SPEC.md."""
    if not topic.strip():
        raise UsageError("/ideate needs a topic", "For example: /ideate a calculator for the terminal")
    return Begin(lambda session: session.submit(ideate_task(topic), typed=f"/ideate {topic}"))


COMMANDS: tuple[Command, ...] = (
    Command("pipeline.show", Scope.WORKBENCH, "Pipeline", "Work through the tasks of a plan file, or show them.",
        slash=("pipeline",), argument="[PLAN.md, ideate TOPIC, pause, resume, stop, retry N, skip N, answer N TEXT or status]",
        handler=pipeline, tab=("Runs", "Pipeline"), aliases={"ideate": "ideate"}, instead="`lmtui pipeline status`"),
)  # fmt: skip
