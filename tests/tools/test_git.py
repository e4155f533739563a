from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Verdict
from lmtui.core.workspace import ExecResult
from lmtui.tools.registry import ToolRegistry
from tests.fakes import FakeSandbox
from tests.tools.test_files import Bench

REGISTRY = ToolRegistry("/home/me/project")


class Differences(FakeSandbox):
    """Has changes in these files, as git names them."""

    names: Sequence[str] = ()

    async def run_git(self, arguments: Sequence[str], *, writes: bool = False, timeout_s: int = 30) -> ExecResult:
        paths = arguments[arguments.index("--") + 1 :]
        names = [name for name in self.names if not paths or name in paths]
        lines = names if "--name-only" in arguments else [f"+{name}" for name in paths or names]
        output = "".join(f"{line}\n" for line in lines)
        return ExecResult(0, output, len(output), 1)


class GitBench(Bench):
    def __init__(self, *names: str) -> None:
        super().__init__()
        self.sandbox: Differences = Differences()
        self.sandbox.names = names


async def test_a_difference_leaves_out_what_is_denied_or_secret_and_of_too_many_files_shows_none() -> None:
    bench = GitBench("a.py", "conf/.env", '"\\303\\251 \\"x.py"', '"\\303\\251.pem"')
    result = await bench.call("git_diff")
    assert result.text.splitlines() == [
        "+a.py", '+\u00e9 "x.py', "(2 files left out: secrets, or forbidden; git_diff of one asks)",
    ]  # fmt: skip
    assert (await GitBench(".env").call("git_diff")).text.startswith("no differences")
    assert (await bench.call("git_diff", path="conf/.env")).text == "+conf/.env"
    context = replace(bench.context(), on_reading=lambda path: Verdict.DENY if path == "a.py" else Verdict.ALLOW)
    assert "a.py" not in (await REGISTRY.prepare("git_diff", "{}").run(context)).text
    with pytest.raises(ToolError, match="too many"):
        await GitBench(*(f"{'x' * 90}{n}" for n in range(600))).call("git_diff")
