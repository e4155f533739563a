from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.programs import Launch, Served
from lmtui.features.hooks.service import MAX_OUTPUT_BYTES, run_in_lane


class PaperLane:
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


async def run(kind: PaperLane, told: bytes = b"{}", limit_s: float = 5.0) -> tuple[int, bytes, bytes, str]:
    ran = await run_in_lane("guard", told, kind, can_write=False, limit_s=limit_s)
    assert kind.is_closed or kind.problem
    return ran.exit_code, ran.out, ran.err, ran.problem


async def test_its_output_words_and_end_are_told_apart() -> None:
    kind = PaperLane(b'{"a"', b": 1}\n{mark}2", error=b"no\nlmtui: it ended (exit, exit code 0)\n")
    assert await run(kind, b"x" * 200_000) == (2, b'{"a": 1}', b"no\n", "")
    assert kind.fed == b"x" * 200_000
    assert (kind.launch.arguments[4], kind.launch.arguments[-1], kind.launch.can_write) == (
        "200000", "guard", False,
    )  # fmt: skip


async def test_the_words_of_a_program_are_given_to_it_as_they_are() -> None:
    kind = PaperLane(b"\n{mark}0")
    _ = await run_in_lane(("bash", "guard.sh", "$(x) y"), b"{}", kind, can_write=False, limit_s=5.0)
    assert (kind.launch.arguments[6:], kind.launch.program) == (("bash", "guard.sh", "$(x) y"), "bash")


@pytest.mark.parametrize("pieces", [(b"some words",), (b"\n{mark}",), (b"\n{mark}x",), ()])
async def test_without_a_told_end_it_was_killed(pieces: tuple[bytes, ...]) -> None:
    code, _, _, problem = await run(PaperLane(*pieces))
    assert (code, problem) == (-1, "was killed")


async def test_a_long_output_is_cut_and_its_end_is_known() -> None:
    code, out, _, _ = await run(PaperLane(*[b"x" * 65_536] * 20, b"\n{mark}0"))
    assert (code, len(out)) == (0, MAX_OUTPUT_BYTES)


@pytest.mark.parametrize(("pieces", "is_cut"), [(1, False), (20, True)])
async def test_a_lane_tells_whether_an_answer_was_cut(pieces: int, is_cut: bool) -> None:
    kind = PaperLane(*[b"x" * 65_536] * pieces, b"\n{mark}0")
    assert (await run_in_lane("guard", b"{}", kind, can_write=False, limit_s=5.0)).is_cut is is_cut


async def test_one_that_hangs_or_floods_is_ended() -> None:
    assert (await run(PaperLane(None), limit_s=0.05))[3] == "did not end within 0.05 s"
    assert (await run(PaperLane(*[b"x" * 1_048_576] * 18)))[3] == "wrote more than anybody reads"


async def test_where_no_sandbox_works_that_is_said() -> None:
    code, _, _, problem = await run(PaperLane(problem="no shell here"))
    assert (code, problem) == (-1, "could not be run: no shell here")
