from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.extensions import IdleWorkspace
from lmtui.config import Config
from lmtui.core.events import TurnReason
from lmtui.core.verification import CheckOutcome, CheckRan, Rung
from lmtui.core.workspace import ExecResult
from lmtui.engine.syntax import MOST_FILES, unparsed
from tests.engine.seen import call, ending, nudges, ran, results, seen, shell
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each


def written(content: str, path: str = "a.py") -> tuple[str, str]:
    return "write", call(path=path, content=content)


async def test_a_shell_script_is_read_by_the_shell_of_a_real_sandbox_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "bad.sh").write_text("touch ran\nif true; then\n")
    (tmp_path / "good.sh").write_text("touch ran\nif true; then echo; fi\n")
    workspace = IdleWorkspace(tmp_path, replace(Config(), sandbox="bubblewrap"))
    found = await unparsed(await workspace.sandbox(), ["bad.sh", "good.sh"])
    await workspace.aclose()
    assert set(found) == {"bad.sh"}
    assert found["bad.sh"].startswith("line 3: syntax error")
    assert not (tmp_path / "ran").exists()


BROKEN = answer("", written("def f(:\n    pass\n"))


@for_each(("path", "text", "why"), [
    ("a.py", "x = 1\ndef f(:\n", "line 2: "), ("a.pyi", "class A\n", "line 1: "),
    ("A.PY", "if x:\npass\n", "line 2: expected an indented block"), ("a.py", "x = 'a\n", "line 1: unterminated string"),
    ("a.py", "x = (1,\n", "line 1: '(' was never closed"), ("a.py", "x = 1\0\n", "null bytes"),
    ("a.json", '{"a": 1,}', "line 1: "), ("a.json", '{\n"a": \n', "line 3: Expecting value"), ("a.toml", "a = \n", "line 1"),
    ("src/b.toml", "[a]\nb = 1\nb = 2\n", "line 3"), ("a.yaml", "a:\n  - b\n - c\n", "line 3"), ("a.yml", "a: 'b\n", "line 2"),
    ("a.py", "x = 1\nreturn x\n", "line 2: 'return' outside function"), ("a.xml", "<a>\n<b></a>\n", "line 2: mismatched tag"),
    ("a.svg", "<svg", "line 1: "),
])  # fmt: skip
async def test_a_file_that_does_not_parse_is_named_with_its_line(path: str, text: str, why: str) -> None:
    found = await unparsed(FakeSandbox({path: text.encode()}), [path])
    assert why in found[path]


@for_each(("path", "data"), [
    ("a.py", b""), ("a.py", b"\xef\xbb\xbfx = 1\n"), ("a.py", "# -*- coding: latin-1 -*-\nx = 'ä'\n".encode("latin-1")),
    ("a.py", b"x = '\\d'\n"), ("a.py", b"x = " + b"-" * 100_000 + b"1"), ("a.py", b"#" * 1_000_001 + b"\nx = ("),
    ("a.py", b"type X = int\ndef f[T](x: T) -> T: ...\n"), ("a.py", b"try:\n    pass\nexcept ValueError, OSError:\n    pass\n"),
    ("a.txt", b"def f(:"), ("a.py", b"await f()\n"),
    ("chart.yaml", b"a: {{ .Values.a }}\nb: [\n"), ("a.yaml", b"a: !Ref b\n---\nc: &x [1]\nd: *x\n"), ("a.yaml", b""),
    ("a.xml", b"<!DOCTYPE a [<!ENTITY b 'c'>]>\n<a>&b;</a>\n"), ("a.svg", b""),
    ("a.json", b""), ("a.json", b'{"a": 1} // one\n'), ("tsconfig.json", b'{"a": 1,}'),
    (".vscode/settings.json", b'{"a": 1,}'), ("a.json", b"[" * 100_000), ("gone.py", None),
])  # fmt: skip
async def test_a_file_that_parses_or_may_elsewhere_is_not_named(path: str, data: bytes | None) -> None:
    sandbox = FakeSandbox({} if data is None else {path: data})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert await unparsed(sandbox, [path]) == {}


async def test_a_file_that_a_write_leaves_unparsed_is_told_with_the_result_and_reminded_of_once() -> None:
    rig = await ran(Rig(FakeProvider(BROKEN, answer("", written("def f():\n    pass\n")), answer("Done."))))
    first, second = results(rig)
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    assert first.startswith("ok\n[a.py does not parse: line 1: ")
    assert first.endswith(f"({version}). Fix it.]")
    assert (second, (nudges(rig), ending(rig).reason)) == ("ok", ([], TurnReason.DONE))
    outcomes = [(event.rung, event.outcome) for event in seen(rig, CheckRan)]
    assert (outcomes, ending(rig).verified) == (
        [(Rung.PARSE, CheckOutcome.FAILED), (Rung.PARSE, CheckOutcome.PASSED)],
        "unverified",
    )
    rig = await ran(Rig(FakeProvider(BROKEN, answer("Done."), answer("It is fine."), answer("It is noon."))))
    assert len(nudges(rig)) == 1
    assert "a.py does not parse (line 1: " in nudges(rig)[0]
    assert (ending(rig).reason, ending(rig).exit_code) == (TurnReason.UNFINISHED, 2)
    assert ending(rig).error.startswith("not finished: a.py does not parse (line 1: ")
    await rig.run("What time is it?")  # what an earlier turn left broken holds up no other question
    assert ending(rig).reason is TurnReason.DONE


class Changing(FakeSandbox):
    """A workspace in which each command removes a.py and writes as many broken files as its last word says."""

    async def run_command(self, command: str, **more: Any) -> ExecResult:
        self.files.pop("a.py", None)
        self.files |= {f"{number}.py": b"def f(:\n" for number in range(int(command.rsplit(maxsplit=1)[-1]))}
        return await super().run_command(command, **more)


async def test_a_file_that_was_deleted_again_holds_nothing_up() -> None:
    sandbox = Changing()
    rig = await ran(Rig(FakeProvider(BROKEN, answer("", shell("rm 0")), answer("Done.")), sandbox))
    assert ending(rig).reason is TurnReason.DONE


@pytest.mark.parametrize("count", [1, MOST_FILES + 1])
async def test_files_that_a_command_changed_are_parsed_unless_they_are_many(count: int) -> None:
    sandbox = Changing()
    made = answer("", shell(f"make {count}"))
    rig = await ran(Rig(FakeProvider(made, *[answer("Done.")] * 3), sandbox, checkpoints=FakeCheckpoints(sandbox)))
    assert ("0.py does not parse" in results(rig)[0]) == (count == 1)
    assert ending(rig).reason is (TurnReason.UNFINISHED if count == 1 else TurnReason.DONE)
