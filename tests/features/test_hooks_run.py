from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.programs import Launch, Served
from lmtui.features.hooks.service import host_environment, run_in_instance, words_of
from lmtui.features.host_program import MAX_ERROR_BYTES, MAX_OUTPUT_BYTES, run_on_host
from lmtui.sandbox.instance_programs import InstanceLauncher
from tests.sets import for_each
from tests.waiting import PATIENCE_S, until

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "OPENAI_API_KEY": "sk-secret", "LC_ALL": "C.UTF-8", "MY_TOKEN": "x"}


async def run(workspace: Path, command: str, told: bytes = b"{}", limit_s: float = 20.0) -> tuple[int, bytes, bytes, str]:
    ran = await run_on_host(words_of(command), told, workspace, host_environment(ENVIRON, workspace), limit_s)
    return ran.exit_code, ran.out, ran.err, ran.problem


async def gone(pid_file: Path) -> bool:
    pid = int(pid_file.read_text())
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return True
            except OSError:
                return True
            await asyncio.sleep(0.02)


async def test_it_reads_its_input_or_not_its_ends_are_told_and_the_words_of_a_program_meet_no_shell(tmp_path: Path) -> None:
    assert await run(tmp_path, "cat; echo no >&2; exit 2", b'{"a": 1}') == (2, b'{"a": 1}', b"no\n", "")
    assert await run(tmp_path, "exec <&-; exit 0", b"x" * 1_000_000) == (0, b"", b"", "")
    program = ("printf", "%s|", "$(touch pwned)", "a b", "${HOME}")
    ran = await run_on_host(program, b"{}", tmp_path, host_environment(ENVIRON, tmp_path), 20.0)
    assert (ran.exit_code, ran.out) == (0, b"$(touch pwned)|a b|${HOME}|")
    ran = await run_on_host(("no-such-heron",), b"{}", tmp_path, host_environment(ENVIRON, tmp_path), 20.0)
    assert (ran.exit_code, ran.problem) == (-1, "could not be started: No such file or directory")
    code, _, _, problem = await run(tmp_path / "gone", "true")
    assert (code, problem.startswith("could not be started")) == (-1, True)


async def test_it_gets_no_keys_and_stands_in_the_workspace_and_a_missing_program_is_told_in_english(tmp_path: Path) -> None:
    _, out, _, _ = await run(tmp_path, "env; pwd")
    text = out.decode()
    assert "sk-secret" not in text
    assert "MY_TOKEN" not in text
    assert f"CLAUDE_PROJECT_DIR={tmp_path}" in text
    assert "LC_ALL=C.UTF-8" in text
    assert text.splitlines()[-1] == str(tmp_path)
    environment = host_environment({**ENVIRON, "LANGUAGE": "de", "LC_ALL": "de_DE.UTF-8"}, tmp_path)
    assert environment["LANGUAGE"] == "en"
    (tmp_path / "bin").mkdir()  # without bash a text is for sh
    ran = await run_on_host(words_of("echo yes"), b"{}", tmp_path, {**environment, "PATH": str(tmp_path / "bin")}, 20.0)
    assert (ran.exit_code, ran.out) == (0, b"yes\n")


async def test_one_that_hangs_and_ignores_signals_is_killed_with_what_it_started_and_what_is_left_ends(tmp_path: Path) -> None:
    command = "trap '' TERM INT HUP; sleep 600 & echo $! > child; setsid sleep 600 & echo $! > apart; wait"
    code, _, _, problem = await run(tmp_path, command, limit_s=0.5)
    assert (code, problem) == (-1, "did not end within 0.5 s")
    assert await gone(tmp_path / "child")
    assert await gone(tmp_path / "apart")
    code, _, _, problem = await run(tmp_path, "kill -9 $$")
    assert (code, problem) == (-1, "was killed by signal 9")
    code, out, _, _ = await run(tmp_path, "sleep 600 & echo $! > child; echo done")
    assert (code, out) == (0, b"done\n")
    assert await gone(tmp_path / "child")


@for_each(("more", "is_cut"), [(0, False), (1, True)])
async def test_an_answer_that_is_longer_than_is_read_is_known_as_cut(tmp_path: Path, more: int, is_cut: bool) -> None:
    command = f"head -c {MAX_OUTPUT_BYTES + more} /dev/zero; head -c 10000000 /dev/zero >&2"
    ran = await run_on_host(words_of(command), b"{}", tmp_path, host_environment(ENVIRON, tmp_path), 20.0)
    assert (len(ran.out), ran.is_cut, len(ran.err)) == (MAX_OUTPUT_BYTES, is_cut, MAX_ERROR_BYTES)


async def test_one_that_writes_without_end_is_ended(tmp_path: Path) -> None:
    code, out, _, problem = await run(tmp_path, "echo $$ > own; exec cat /dev/zero", limit_s=60)
    assert (code, len(out), problem) == (-1, MAX_OUTPUT_BYTES, "wrote too much output")
    assert not Path("/proc", (tmp_path / "own").read_text().strip()).exists(), "it was killed and not waited for"


async def test_one_that_is_cancelled_has_ended_before_that_returns(tmp_path: Path) -> None:
    work = asyncio.ensure_future(run(tmp_path, "echo $$ > own; sleep 600"))
    await until(lambda: (tmp_path / "own").exists() and (tmp_path / "own").read_text())
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await gone(tmp_path / "own")


class PaperInstance(InstanceLauncher):
    """Plays what a program in an instance writes; `{mark}` is where its end is told, None hangs."""

    place = "paper"

    def __init__(self, *pieces: bytes | None, error: bytes = b"", problem: str = "") -> None:
        self.pieces = list(pieces)
        self.error, self.problem = error, problem
        self.launch = Launch(())
        self.fed = b""
        self.is_closed = False

    async def open(self, launch: Launch, on_error: Callable[[bytes], None]) -> Served:
        if self.problem:
            raise SandboxError(self.problem)
        self.launch = launch
        on_error(self.error)
        return self

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        piece = self.pieces.pop(0) if self.pieces else b""
        if piece is None:
            await asyncio.Event().wait()
        return (piece or b"").replace(b"{mark}", self.launch.arguments[5].encode())

    async def write(self, data: bytes) -> None:
        self.fed += data

    async def close(self) -> None:
        self.is_closed = True


async def run_in_paper(kind: PaperInstance, told: bytes = b"{}", limit_s: float = 5.0) -> tuple[int, bytes, bytes, str]:
    ran = await run_in_instance("guard", told, kind, can_write=False, limit_s=limit_s)
    assert kind.is_closed or kind.problem
    return ran.exit_code, ran.out, ran.err, ran.problem


async def test_its_output_words_and_end_are_told_apart_and_a_programs_words_given_as_they_are() -> None:
    kind = PaperInstance(b'{"a"', b": 1}\n{mark}2", error=b"no\nlmtui: it ended (exit, exit code 0)\n")
    assert await run_in_paper(kind, b"x" * 200_000) == (2, b'{"a": 1}', b"no\n", "")
    assert kind.fed == b"x" * 200_000
    assert (kind.launch.arguments[4], kind.launch.arguments[-1], kind.launch.can_write) == (
        "200000", "guard", False,
    )  # fmt: skip
    kind = PaperInstance(b"\n{mark}0")
    _ = await run_in_instance(("bash", "guard.sh", "$(x) y"), b"{}", kind, can_write=False, limit_s=5.0)
    assert (kind.launch.arguments[6:], kind.launch.program) == (("bash", "guard.sh", "$(x) y"), "bash")


async def test_one_in_an_instance_that_does_not_end_by_itself_or_writes_too_much_is_told() -> None:
    for pieces in ((b"some words",), (b"\n{mark}",), (b"\n{mark}x",), ()):
        code, _, _, problem = await run_in_paper(PaperInstance(*pieces))
        assert (code, problem) == (-1, "was killed"), pieces
    for count, is_cut in ((1, False), (20, True)):
        kind = PaperInstance(*[b"x" * 65_536] * count, b"\n{mark}0")
        ran = await run_in_instance("guard", b"{}", kind, can_write=False, limit_s=5.0)
        assert (ran.is_cut, ran.exit_code, len(ran.out)) == (is_cut, 0, min(count * 65_536, MAX_OUTPUT_BYTES))
    assert (await run_in_paper(PaperInstance(None), limit_s=0.05))[3] == "did not end within 0.05 s"
    assert (await run_in_paper(PaperInstance(*[b"x" * 1_048_576] * 18)))[3] == "wrote too much output"
    code, _, _, problem = await run_in_paper(PaperInstance(problem="no shell here"))
    assert (code, problem) == (-1, "could not be run: no shell here")
