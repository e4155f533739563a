from __future__ import annotations

import json

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Access
from lmtui.core.workspace import CommandLimits, ExecResult
from lmtui.tools.registry import ToolRegistry
from tests.sets import for_each
from tests.tools.test_files import Bench

REGISTRY = ToolRegistry("/home/me/project")


@for_each(("cwd", "command", "line"), [
    ("sub", "make", "cd sub && make"), ("a b", "make", "cd 'a b' && make"), ("$(rm x)", "make", "cd '$(rm x)' && make"),
    ("-x", "make", "cd ./-x && make"), ("/home/me/project/sub", "make", "cd sub && make"),
    ("/workspace/sub/", "make", "cd sub && make"), ("/tmp", "make", "cd /tmp && make"),
    ("sub", "make\nls", "cd sub || exit\nmake\nls"), (".", "make", "make"), ("/home/me/project", "make", "make"),
    ("", "make", "make"),
])  # fmt: skip
async def test_a_command_runs_in_the_folder_that_is_given(cwd: str, command: str, line: str) -> None:
    call = REGISTRY.prepare("shell", json.dumps({"command": command, "cwd": cwd}))
    assert (call.subjects, call.arguments) == ((line,), {"command": line})
    assert (await call.preview(Bench().context())).text == line
    bench = Bench()
    await call.run(bench.context())
    assert bench.sandbox.ran == [line]


@for_each(("root", "command", "subject"), [
    ("/home/me/project", "cd /home/me/project && make", "cd /workspace && make"),
    (
        "/home/me/project",
        "cat '/home/me/project/.env' --x=/home/me/project/a",
        "cat '/workspace/.env' --x=/workspace/a",
    ),
    ("/home/me/project", "ls /home/me/projects /srv/home/me/project", "ls /home/me/projects /srv/home/me/project"),
    ("/home/me/project", "ls ./home/me/project/a", "ls ./home/me/project/a"),
    ("/home/a;b", "cd /home/a;b && ls", "cd /home/a;b && ls"),
])  # fmt: skip
async def test_rules_see_one_name_of_the_workspace(root: str, command: str, subject: str) -> None:
    call = ToolRegistry(root).prepare("shell", json.dumps({"command": command}))
    assert (call.subjects, (await call.preview(Bench().context())).text) == ((subject,), command)


DOCUMENT = "git commit -m \"$(cat <<'EOF'\n{}\nEOF\n)\""
INPUT = "git commit -F - <<'EOF'\n{}\nEOF"


@for_each(("command", "line"), [
    (DOCUMENT.format("Fix it\n\nIt's `so` $(rm -rf ~)\n"), "git commit -m 'Fix it\n\nIt'\"'\"'s `so` $(rm -rf ~)'"),
    (f"git add -A && {DOCUMENT.format('Fix')} && git status", "git add -A && git commit -m Fix && git status"),
    (DOCUMENT.format("Fix").replace("-m", "-am"), "git commit -am Fix"),
    (DOCUMENT.format("Fix").replace("'", ""), "git commit -m Fix"),
    (INPUT.format("Fix it\n\n`so` $(rm -rf ~)"), "git commit -m 'Fix it\n\n`so` $(rm -rf ~)'"),
    (INPUT.format("Fix").replace("-F -", "-aF - --amend") + "\ngit push", "git commit -am Fix --amend\ngit push"),
    (INPUT.format("Fix").replace("-F -", "--file=-").replace("'EOF'", '"EOF" && git push'), "git commit -m Fix && git push"),
    *((kept, kept) for kept in (
        f'echo "a {DOCUMENT.format("$(echo x >&2)")}"', f"bash -c \"{DOCUMENT.format('a')}\"", f"X='{DOCUMENT.format('a')}'",
        f"# {DOCUMENT.format('a')}", DOCUMENT.format("a\nEOF\nrm x"), DOCUMENT.format("a\nEOF)\"; rm x; \""),
        *(DOCUMENT.format(part).replace("'", "") for part in ("$(rm x)", "`x`", "$HOME", "a\\\nb")),
        INPUT.format("$(rm x)").replace("'", ""), INPUT.format("a\nEOF\nrm x <<EOF"), f'echo "{INPUT.format("$(rm x)")}"',
        INPUT.format("a\n EOF\nb"), INPUT.format("a").replace("-F -", "-F - | rm x"),
        f"cat >do.sh <<'X'\n{INPUT.format('a')}\nX",
        DOCUMENT.format("a").replace("\n)", "\nrm x)"), f"cat >do.sh <<'X'\n{DOCUMENT.format('a')}\nX",
    )),
])  # fmt: skip
def test_a_message_from_a_here_document_is_judged_and_run_as_the_text_it_is(command: str, line: str) -> None:
    assert REGISTRY.prepare("shell", json.dumps({"command": command})).subjects == (line,)


def test_a_command_that_is_prepared_again_changes_the_folder_once() -> None:
    call = REGISTRY.prepare("shell", '{"command": "make", "workdir": "sub"}')
    again = REGISTRY.prepare("shell", json.dumps(dict(call.arguments)))
    assert again.arguments == {"command": "cd sub && make"}
    with pytest.raises(ToolError, match="cwd is wrong"):
        REGISTRY.prepare("shell", '{"command": "ls", "cwd": 5}')


@for_each(("given", "timeout_s", "memory_mb"), [
    ({}, 90, 3000), ({"timeout": 200, "memory_mb": 100}, 200, 100), ({"timeout": 9999, "memory_mb": 9999}, 400, 3000),
    ({"timeout": -1, "memory_mb": 1}, 90, 64),
])  # fmt: skip
async def test_the_settings_are_the_default_and_the_most_and_the_model_is_told(
    given: dict[str, int], timeout_s: int, memory_mb: int
) -> None:
    bench = Bench()
    bench.sandbox.limits = limits = CommandLimits(timeout_s=90, max_timeout_s=400, memory_mb=3000)
    (spec,) = (each for each in ToolRegistry(limits=limits).specs() if each.name == "shell")
    assert "seconds; default 90, limit 400" in json.dumps(spec.parameters)
    call = REGISTRY.prepare("shell", json.dumps({"command": "make", **given}))
    assert (await call.preview(bench.context())).limits == f"up to {timeout_s} s, {memory_mb:,} MB"


async def test_output_before_a_time_out_is_kept_and_what_helps_is_said() -> None:
    bench = Bench()
    bench.sandbox.commands["make"] = ExecResult(124, "so far\n", 7, 90_000, is_timed_out=True)
    result = await REGISTRY.prepare("shell", '{"command": "make"}').run(bench.context())
    assert result.text == (
        "so far\n(stopped after 90 s; everything it started is gone; timeout can be up to 600, background=true has no limit)"
    )


async def test_a_background_command_says_how_to_go_on_with_it() -> None:
    bench = Bench()
    started = await REGISTRY.prepare("shell", '{"command": "npm run dev", "background": true}').run(bench.context())
    assert bench.sandbox.ran == []
    assert started.text == (
        'output of b1\n(b1 running for 3 s; the tool background continues it: {"id": "b1"} reads, '
        '{"id": "b1", "action": "stop"} ends it)'
    )
    listed = await REGISTRY.prepare("background", "{}").run(bench.context())
    assert listed.text == "b1  running for 3 s  npm run dev"
    sent = await REGISTRY.prepare("background", '{"id": "b1", "action": "input", "input": "rs"}').run(bench.context())
    assert sent.text == "output of b1rs\n(b1 running for 3 s)"
    stopped = await REGISTRY.prepare("background", '{"id": "b1", "action": "stop"}').run(bench.context())
    assert stopped.text == "b1  stopped after 3 s  npm run dev"
    for action, access in (("read", Access.NONE), ("stop", Access.NONE), ("input", Access.EXECUTE)):
        call = REGISTRY.prepare("background", json.dumps({"id": "b1", "action": action, "input": "rm -r x"}))
        assert call.access is access


@for_each(("command", "output", "text", "is_ok"), [
    ("grep -c x a.txt", "0\n", "0\n(nothing matched)", True), ("cat a.txt | rg x", "", "(nothing matched)", True),
    ("grep x a.txt && make", "", "(exit code 1)", False),
    ("grep x a.txt", "grep: a.txt: bad\n", "grep: a.txt: bad\n(exit code 1)", False), ("pytest", "", "(exit code 1)", False),
])  # fmt: skip
async def test_a_search_without_a_match_did_not_fail(command: str, output: str, text: str, *, is_ok: bool) -> None:
    bench = Bench()
    bench.sandbox.commands[command] = ExecResult(1, output, len(output), 1)
    result = await REGISTRY.prepare("shell", json.dumps({"command": command})).run(bench.context())
    assert (result.text, result.ok) == (text, is_ok)
