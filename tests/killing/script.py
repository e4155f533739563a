"""What is killed: a long task (files, commands, approvals, sub-agents, todos, a small window), a job, a wait, and a plan."""

from __future__ import annotations

from typing import Any

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

TASK, JOB = "The long task: do all steps.", "The job: note that it ran."
WAIT, PLAN = "The patient task: wait for the build.", "The planned task: plan it first."
JOBS_END = "The job is done."
ENDS = {TASK: "All done.", JOB: JOBS_END, WAIT: "The wait is over.", PLAN: "The plan is carried out."}
EFFECTS = "effects.txt"
STEPS = 24
WINDOW_TOKENS = 4_000


def _call(name: str, **arguments: object) -> ScriptedCall:
    return ScriptedCall(name, arguments)


def effect(name: str) -> ScriptedCall:
    """Return a command that leaves its mark each time it runs."""
    return _call("shell", command=f"echo {name} >> {EFFECTS}")


def scenarios() -> tuple[Scenario, ...]:
    """Return what the model says as the sub-agents, in the job, while it waits, with a plan, and in the task itself."""
    children = (_child(name) for name in ("first", "second", "third"))
    job = Scenario((ScriptedTurn("The job begins.", calls=(effect("job"),)),), "job", JOB, JOBS_END)
    task = (*(ScriptedTurn(f"Step {number:03}.", calls=_step(number)) for number in range(STEPS)), ScriptedTurn("All done."))
    long = Scenario(task, "task", TASK, ENDS[TASK], window_tokens=WINDOW_TOKENS, goes_by_words=True)
    return (*children, job, _waiting(), _planned(), long)


class AskedServer(ScriptedServer):
    """Leaves the job's mark whenever the job is asked for, though the conversation is a longer one by then."""

    def _turn(self, body: dict[str, Any]) -> tuple[Scenario, int, ScriptedTurn]:
        messages = body.get("messages") or []
        asked = [place for place, each in enumerate(messages) if each.get("role") == "user" and JOB in str(each.get("content"))]
        return super()._turn(body | {"messages": messages[asked[-1] :]} if asked else body)


def _step(number: int) -> tuple[ScriptedCall, ...]:
    match number % 6:
        case 0:
            return (_call("write", path=f"part{number}.txt", content=f"part {number}\n" * 40), effect(f"step{number}"))
        case 1:
            return (_call("read", path=f"part{number - 1}.txt"), _call("todo_add", description=f"look at {number}"))
        case 2 if number < 18:
            name = ("first", "second", "third")[number // 6]
            return (_call("delegate", objective=f"the {name} child", deliverable_path=f"{name}.txt"),)
        case 3:
            return (effect(f"one{number}"), effect(f"two{number}"))
        case 4:
            return (_call("edit", path=f"part{number - 4}.txt", search=f"part {number - 4}\n" * 40, replace="changed\n"),)
        case _:
            return (_call("ls", path="."), _call("todo_complete", id=1 + number // 6))


def _waiting() -> Scenario:
    turns = (
        ScriptedTurn("Before the wait.", calls=(effect("before-wait"),)),
        ScriptedTurn("I wait now.\nWAIT: in 1s: the build"),
        ScriptedTurn("Woken.", calls=(effect("woken"),)),
        ScriptedTurn(ENDS[WAIT]),
    )
    return Scenario(turns, "wait", WAIT, ENDS[WAIT], goes_by_words=True)


def _planned() -> Scenario:
    steps = [{"id": 1, "text": "note that it ran", "verification": "look at the file"}]
    turns = (
        ScriptedTurn("I look first.", calls=(_call("ls", path="."),)),
        ScriptedTurn("This is my plan.", calls=(_call("propose_plan", title="One step", steps=steps),)),
        ScriptedTurn("I carry it out.", calls=(effect("planned"),)),
        ScriptedTurn("I check it.", calls=(_call("plan_complete_step", step_id=1, verification_notes="it is there"),)),
        ScriptedTurn(ENDS[PLAN]),
    )
    return Scenario(turns, "plan", PLAN, ENDS[PLAN], goes_by_words=True)


def _child(name: str) -> Scenario:
    turns = (
        ScriptedTurn(f"{name} begins.", calls=(effect(f"child-{name}"), _call("ls", path="."))),
        ScriptedTurn(f"{name} writes.", calls=(_call("write", path=f"{name}.txt", content=f"{name}\n"),)),
        ScriptedTurn("", calls=(_call("report_result", status="ok", summary=f"{name} is there", artifacts=[f"{name}.txt"]),)),
    )
    return Scenario(turns, name, f"Your task: the {name} child")
