from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.programs import CodeResult, Launch
from lmtui.sandbox import instance_programs
from lmtui.sandbox.instance_programs import InstanceLauncher, SandboxInterpreter
from tests.sandbox.conftest import ISOLATED, OpenSandbox
from tests.waiting import PATIENCE_S, until

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()


class Bench:
    def __init__(self, launcher: Callable[[], Awaitable[InstanceLauncher | None]]) -> None:
        self.interpreter = SandboxInterpreter(launcher)
        self.seen: list[str] = []

    async def run(self, code: str, timeout_s: float = 30) -> CodeResult:
        async with asyncio.timeout(PATIENCE_S):
            return await self.interpreter.run(code, timeout_s=timeout_s, on_output=self.seen.append)


Begin = Callable[[str], Awaitable[Bench]]


@pytest.fixture
async def begin(open_sandbox: OpenSandbox) -> AsyncIterator[Begin]:
    benches: list[Bench] = []

    async def start(name: str = "process") -> Bench:
        sandbox = await open_sandbox(name)

        async def launcher() -> InstanceLauncher | None:
            return sandbox.launcher

        benches.append(Bench(launcher))
        return benches[-1]

    yield start
    for bench in benches:
        await bench.interpreter.close()


PRINTED = "import os, subprocess, sys\nprint('one')\nos.write(1, b'two\\n')\nsubprocess.run(['echo', 'three'])\n"
CELLS = (  # code, whether it ended well, what is in its output
    (f"{PRINTED}print('four', file=sys.stderr)\nsys.stdout.write('five')", True, "one\ntwo\nthree\nfour\nfive4\n"),
    ("x = 5\ndef f():\n    return x / 0\nf()\n", False, 'File "<cell 2>", line 3, in f\n    return x / 0'),
    ("f()", False, "ZeroDivisionError: division by zero\n"),
    *((code, False, "SyntaxError") for code in ("x = = 1", "return 5", "yield 1", "f(x=1, x=2)")),
    ("raise SystemExit(3)", False, "SystemExit: 3"),
    ("import asyncio\nawait asyncio.sleep(0)\ny = 2\nawait asyncio.sleep(0, 'slept')", True, "'slept'\n"),
    ("class Large:\n    def _repr_png_(self):\n        return b'x' * 5_000_000\nLarge()", True, "a picture of 5,000,000 bytes"),
    ("x, y", True, "(5, 2)\n"),
)


async def test_each_cell_says_what_it_printed_or_what_is_wrong_with_it_and_the_names_stay(begin: Begin) -> None:
    bench = await begin("process")
    for code, is_ok, output in CELLS:
        bench.seen.clear()
        ran = await bench.run(code)
        assert (ran.is_ok, ran.is_lost, output in ran.output) == (is_ok, False, True), (code, ran.output)
        assert "".join(bench.seen) == ran.output
        assert "interpreter.py" not in ran.output
    chart = "class Chart:\n  def _repr_png_(self):\n    return b'\\x89PNG\\r\\n\\x1a\\n' * 99_999"
    ran = await bench.run(f"{chart}\nnoise = subprocess.Popen(['yes'])\nChart()")
    assert [(image.media_type, image.data[:4]) for image in ran.images] == [("image/png", b"\x89PNG")]


@pytest.mark.full
async def test_what_is_stopped_keeps_the_names_and_what_cannot_be_stopped_or_dies_is_replaced(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = await begin("process")
    await bench.run("import os, signal, time\nkept = 'yes'")
    ran = await bench.run("print('begun')\nwhile True:\n    time.sleep(0.05)", 0.3)
    assert (ran.is_ok, ran.is_timed_out, ran.is_lost, ran.output[:6]) == (False, True, False, "begun\n")
    bench.seen.clear()
    task = asyncio.create_task(bench.run("print('begun')\nwhile True:\n    time.sleep(0.05)"))
    await until(lambda: "begun" in "".join(bench.seen))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await bench.run("kept")).output == "'yes'\n"
    monkeypatch.setattr(instance_programs, "_STOP_S", 0.5)
    ran = await bench.run("signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    time.sleep(1)", 0.3)
    assert (ran.is_timed_out, ran.is_lost) == (True, True)
    after = await bench.run("import os\nprint('last')\nos._exit(1)")
    assert (after.is_fresh, after.is_ok, after.is_lost) == (True, False, True)
    again = await bench.run("kept")
    assert (again.is_fresh, "NameError" in again.output) == (True, True)
    await bench.interpreter.close()
    assert (await bench.run("1")).is_fresh


@pytest.mark.parametrize("name", ISOLATED)
async def test_what_it_makes_for_programs_outside_is_set_aside(name: str, begin: Begin) -> None:
    bench = await begin(name)
    ran = await bench.run("import os, pathlib\nos.mkdir('.vscode')\npathlib.Path('.vscode/tasks.json').write_text('{}')")
    assert ran.is_ok
    assert any(".vscode" in note and "moved to" in note for note in ran.left)
    assert (await bench.run("os.listdir()")).left == ()


class Liar:
    """A program that says anything; a `MARK` is what its lines begin with."""

    place, word = "nowhere", b""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces, self.is_closed = list(pieces), False

    async def read(self) -> bytes:
        return self.pieces.pop(0).replace(b"MARK", b"\0" + self.word) if self.pieces else b""

    async def write(self, data: bytes) -> None:
        if self.is_closed:
            raise SandboxError("it has ended")
        del data

    async def close(self) -> None:
        self.is_closed = True


class OneLauncher(InstanceLauncher):
    def __init__(self, program: Liar) -> None:
        self.program = program

    async def open(self, launch: Launch, on_error: Callable[[bytes], None]) -> Liar:
        del on_error
        self.program.word = launch.arguments[-1].encode()
        return self.program

    @contextlib.asynccontextmanager
    async def guarded(self) -> AsyncIterator[list[str]]:
        left: list[str] = []
        yield left
        left.append("set aside")


def bench_of(program: Liar) -> Bench:
    async def launcher() -> InstanceLauncher | None:
        return OneLauncher(program)

    return Bench(launcher)


def line(text: str) -> bytes:
    return f"MARK{text}\n".encode()


@pytest.mark.parametrize(
    "pieces",
    [
        (b"\xff\xff\xff\xff",), (line("not json"),), (b"\0\0",), (line('{"done": 1}')[:7],), (), (line("[" * 100_000),),
        (line("[]"),), (b"MARK" + b"x" * 9_000_000,), (b'MARK{"done": true}' + line('{"done": true}'),),
    ],
)  # fmt: skip
async def test_whatever_a_broken_interpreter_says_it_is_ended(pieces: tuple[bytes, ...]) -> None:
    liar = Liar(*pieces)

    ran = await bench_of(liar).run("1")
    assert (ran.is_ok, ran.is_lost) == (False, True)
    assert liar.is_closed


async def test_odd_lines_are_passed_over_and_pictures_checked() -> None:
    lines = ('{"out": 5}', "{}", '{"image": "!!"}', '{"image": "aGVsbG8="}', f'{{"image":\\\nMARK"{PNG}"}}', '{"done": 1}')
    liar = Liar(b"\x1b[31mr\0ed\0", b"".join(map(line, lines)))

    ran = await bench_of(liar).run("1")
    assert (ran.output, len(ran.images), ran.is_ok, ran.left) == ("r␀ed␀", 1, False, ("set aside",))


class Slow(Liar):
    """A program that says its last pieces only after it was told to stop, and then takes its time."""

    def __init__(self, *pieces: bytes, late: tuple[bytes, ...]) -> None:
        super().__init__(*pieces)
        self.late = late
        self.is_waited_for = asyncio.Event()
        self.may_end = asyncio.Event()
        self.told: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.told.append(data)

    async def read(self) -> bytes:
        if not self.pieces:
            self.is_waited_for.set()
            await self.may_end.wait()
            self.pieces, self.late = list(self.late), ()
        return await super().read()


@pytest.mark.parametrize("at", [9, 13, 17])
async def test_a_line_of_which_half_was_read_when_it_was_stopped_is_not_lost(at: int) -> None:
    whole = b"all of it" + line('{"done": false}')
    slow = Slow(whole[:at], late=(whole[at:],))

    running = asyncio.create_task(bench_of(slow).run("1", 0.05))
    await until(lambda: len(slow.told) >= 2)
    slow.may_end.set()
    ran = await running
    assert (ran.output, ran.is_timed_out, ran.is_lost) == ("all of it", True, False)
    assert not slow.is_closed


async def test_however_often_it_is_cancelled_the_next_code_waits_until_it_has_stopped() -> None:
    slow = Slow(late=(b"old" + line('{"done": false}'), b"new", line('{"done": true}')))

    bench = bench_of(slow)
    running = asyncio.create_task(bench.run("1"))
    await slow.is_waited_for.wait()
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0.01)
    after = asyncio.create_task(bench.run("2"))
    await asyncio.sleep(0.01)
    slow.may_end.set()
    assert (await after).output == "new"
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_without_a_sandbox_there_is_none() -> None:
    async def launcher() -> InstanceLauncher | None:
        return None

    with pytest.raises(SandboxUnavailable, match="no Python"):
        await Bench(launcher).run("1")
