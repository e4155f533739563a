from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from lmtui.core.messages import Image
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Access, Effect, Mode, Verdict, parse_rule
from lmtui.core.programs import CodeResult, Interpreter
from lmtui.tools.registry import ToolRegistry
from tests.fakes import offers
from tests.sets import for_each
from tests.tools.test_files import Bench

REGISTRY = ToolRegistry()
PICTURE = Image("figure 1", "image/png", b"\x89PNG")


class FakeInterpreter:
    def __init__(self, ran: CodeResult) -> None:
        self.ran = ran
        self.asked: list[tuple[str, float]] = []
        self.closed = 0

    async def run(self, code: str, *, timeout_s: float, on_output: Callable[[str], None]) -> CodeResult:
        self.asked.append((code, timeout_s))
        on_output(self.ran.output)
        return self.ran

    async def close(self) -> None:
        self.closed += 1


async def told(ran: CodeResult, *, sees: bool = True, **arguments: object) -> tuple[FakeInterpreter, str, str, bool, int]:
    interpreter = FakeInterpreter(ran)
    context = replace(Bench().context(), features=offers({Interpreter: interpreter}), sees=sees)
    result = await REGISTRY.prepare("python", json.dumps(arguments)).run(context)
    return interpreter, result.text, result.summary, result.ok, len(result.images)


async def test_the_output_is_the_result_and_a_reset_forgets() -> None:
    interpreter, text, summary, is_ok, _ = await told(CodeResult("3\n"), code="1 + 2", timeout=9_999)
    limited = "3\n[timeout was 9999, which is out of range; 600 was used]"
    assert (text, summary, is_ok, interpreter.asked) == (limited, "", True, [("1 + 2", 600)])
    assert (await told(CodeResult("")))[1] == "(no output)"
    assert (await told(CodeResult("oops", is_ok=False), code="x"))[2:4] == ("error", False)
    interpreter, text, summary, _, _ = await told(CodeResult("1"), reset=True)
    assert (interpreter.closed, interpreter.asked, text, summary) == (1, [], "The interpreter is a fresh one.", "reset")
    interpreter, *_ = await told(CodeResult("1"), reset=True, code="1")
    assert (interpreter.closed, len(interpreter.asked)) == (1, 1)


async def test_it_is_told_only_where_all_tools_are_and_with_what_the_model_has_to_know_beside_its_output() -> None:
    assert [spec.name for spec in REGISTRY.specs() if spec.name == "python"] == []
    call = REGISTRY.prepare("run_python", '{"code": "1"}')
    assert (call.tool, call.access, call.subjects) == ("python", Access.EXECUTE, ())
    preview = await call.preview(Bench().context())
    assert (preview.text, preview.limits) == ("1", "up to 60 s")
    assert "fresh interpreter" in (await told(CodeResult("1", is_fresh=True), code="1"))[1]
    _, text, summary, is_ok, _ = await told(
        CodeResult("so far", is_ok=False, is_lost=True, is_timed_out=True), code="x", timeout=5
    )
    assert text == "so far\n(stopped after 5 s)\n(the interpreter ended: all names are gone; the next call begins a fresh one)"
    assert (summary, is_ok) == ("interpreter ended", False)
    assert (await told(CodeResult("", images=(PICTURE,)), code="x"))[1::3] == ("(1 picture shown)", 1)
    assert (await told(CodeResult("", images=(PICTURE,)), sees=False, code="x"))[4] == 0
    assert (await told(CodeResult("1", left=("[.envrc was moved]",)), code="x"))[1] == "1\n[.envrc was moved]"


@for_each(("texts", "mode", "verdict"), [
    ((), Mode.NORMAL, Verdict.ASK), ((), Mode.MANUAL, Verdict.ASK), ((), Mode.AUTO, Verdict.ALLOW),
    ((), Mode.PLAN, Verdict.DENY), (("allow Python",), Mode.NORMAL, Verdict.ALLOW),
    (("allow Shell",), Mode.NORMAL, Verdict.ASK), (("deny Shell",), Mode.AUTO, Verdict.DENY),
    (("deny Python", "allow Python"), Mode.AUTO, Verdict.DENY), (("ask Shell", "allow Python"), Mode.AUTO, Verdict.ASK),
    (("deny Read(secrets/**)",), Mode.AUTO, Verdict.ASK), (("deny Write(config/**)", "allow Python"), Mode.NORMAL, Verdict.ASK),
])  # fmt: skip
def test_it_is_decided_about_as_something_that_may_do_anything(texts: tuple[str, ...], mode: Mode, verdict: Verdict) -> None:
    rules = tuple(parse_rule(text.partition(" ")[2], Effect(text.partition(" ")[0]), "settings") for text in texts)
    assert decide_all("python", Access.EXECUTE, (), mode, rules).verdict is verdict


def test_in_a_reduced_sandbox_it_asks_each_time_but_for_this_sessions_own_rule() -> None:
    settings, own = parse_rule("Python", Effect.ALLOW, "settings"), parse_rule("Python", Effect.ALLOW, "this session")
    for mode, rules, verdict in (
        (Mode.AUTO, (), Verdict.ASK), (Mode.AUTO, (settings,), Verdict.ASK), (Mode.NORMAL, (own,), Verdict.ALLOW),
    ):  # fmt: skip
        assert decide_all("python", Access.EXECUTE, (), mode, rules, asks_each_command=True).verdict is verdict
