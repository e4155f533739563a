"""A Python that stays: it runs code that comes in frames, keeps its names, prints, and sends pictures in between.

Runs inside the sandbox, on the standard library alone, by its source.  A frame is its length (4 bytes, big-endian) and a JSON
object: `{"code"}` or `{"stop"}`.  Lines go out, each a JSON object behind a word that the first argument says: `{"image"}` (a
PNG, base64), and at the end `{"done"}` with whether all went well; a backslash ends what continues.
"""

from __future__ import annotations

import ast
import base64
import code
import contextlib
import inspect
import io
import json
import linecache
import os
import queue
import signal
import struct
import sys
import threading
import traceback
import types

_MAX_VALUE_CHARS = 20_000
_MAX_LINE_BYTES, _PIECE_BYTES = 4_000_000, 4_000  # no one prints within PIPE_BUF bytes
_MAX_IMAGES = 4
_CELL = "<cell "


class MarkedOutput:
    """Where all goes that is printed, and lines in between, each behind a zero byte and a word."""

    def __init__(self, word: str) -> None:
        self._mark = f"\0{word}".encode()
        self._descriptor = os.dup(1)
        os.dup2(1, 2)

    def send(self, line: dict[str, object]) -> bool:
        """Send one line whole, behind what was printed; False, and nothing, if it is too large."""
        data = json.dumps(line).encode()
        if len(data) > _MAX_LINE_BYTES:
            return False
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # the code closed it
                stream.flush()
        for at in range(0, len(data), _PIECE_BYTES):
            end = b"\\\n" if at + _PIECE_BYTES < len(data) else b"\n"
            os.write(self._descriptor, self._mark + data[at : at + _PIECE_BYTES] + end)
        return True


class InterpreterSession(code.InteractiveInterpreter):
    """The names of the code so far, and the cells that they come from."""

    def __init__(self, output: MarkedOutput) -> None:
        self._output = output
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        super().__init__(module.__dict__)
        self._count = 0
        self._is_ok = True
        sys.displayhook = self._show

    def run(self, text: str) -> bool:
        """Run a cell, print the value of its last line and show its pictures; tell whether it ended well."""
        self._count += 1
        self._is_ok = True
        name = f"{_CELL}{self._count}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        try:
            tree = ast.parse(text, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            cells = [(tree, "exec"), *([(ast.Interactive([last]), "single")] if last is not None else ())]
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            parts = [compile(cell, name, mode, flags=flags) for cell, mode in cells]
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # some mistakes are found only by the compiler
            self.showtraceback()
            return False
        for part in parts:
            if self._is_ok:
                self._run_part(part)
        if self._is_ok:
            self.runcode(compile("__lmtui_show__()", "<figures>", "exec"))
        return self._is_ok

    def _run_part(self, part: types.CodeType) -> None:
        if part.co_flags & inspect.CO_COROUTINE:
            self.locals["__lmtui_cell__"] = types.FunctionType(part, self.locals)
            part = compile("__import__('asyncio').run(__lmtui_cell__())", "<await>", "exec")
        self.locals["__lmtui_show__"] = self._show_figures
        try:
            self.runcode(part)
        except SystemExit as error:  # this process stays
            print(f"SystemExit: {error}", file=sys.stderr)
            self._is_ok = False

    def showtraceback(self) -> None:
        """Print a trace that begins in the code, not in here."""
        self._is_ok = False
        kind, error, trace = sys.exc_info()
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(_CELL):
            trace = trace.tb_next
        if isinstance(error, KeyboardInterrupt):
            print("KeyboardInterrupt", file=sys.stderr)
        else:
            traceback.print_exception(kind, error, trace)

    def _show(self, value: object) -> None:
        if value is None:
            return
        self.locals["_"] = value
        picture = _picture_of(value)
        if picture:
            self._send_picture(picture)
            return
        text = repr(value)
        print(text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}… ({len(text):,} characters)")

    def _show_figures(self) -> None:
        """Show what matplotlib holds, and let go of it."""
        plots = sys.modules.get("matplotlib.pyplot")
        if plots is None:
            return
        for number in plots.get_fignums()[:_MAX_IMAGES]:
            held = io.BytesIO()
            plots.figure(number).savefig(held, format="png")
            self._send_picture(held.getvalue())
        plots.close("all")

    def _send_picture(self, data: bytes) -> None:
        if not self._output.send({"image": base64.b64encode(data).decode()}):
            print(f"(a picture of {len(data):,} bytes is too large to be shown)")


def _picture_of(value: object) -> bytes:
    """Return the PNG of something that is a picture, else nothing."""
    if type(value).__module__.startswith("PIL.") and hasattr(value, "save"):
        held = io.BytesIO()
        value.save(held, format="PNG")
        return held.getvalue()
    made = getattr(value, "_repr_png_", None)
    found = made() if callable(made) and not isinstance(value, type) else None
    return found if isinstance(found, bytes) else b""


def _take_frames(source: io.BufferedReader, cells: queue.Queue[str | None], main: int, busy: threading.Event) -> None:
    while len(head := source.read(4)) == 4:
        frame = json.loads(source.read(struct.unpack(">I", head)[0]))
        if "code" in frame:
            busy.set()
            cells.put(frame["code"])
        elif busy.is_set():
            signal.pthread_kill(main, signal.SIGINT)
    cells.put(None)


def main() -> None:
    """Serve until the input ends."""
    source, output = os.fdopen(os.dup(0), "rb"), MarkedOutput(sys.argv.pop())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path.insert(0, "")  # the workspace, wherever the code goes
    cells: queue.Queue[str | None] = queue.Queue()
    session, busy = InterpreterSession(output), threading.Event()
    reader = threading.Thread(target=_take_frames, args=(source, cells, threading.get_ident(), busy), daemon=True)
    reader.start()
    while True:
        ok = False
        try:
            text = cells.get()
            if text is None:
                return
            ok = session.run(text)
        except KeyboardInterrupt:  # a stop that came before the code began, or as it ended
            with contextlib.suppress(queue.Empty):
                cells.get_nowait()
        busy.clear()
        for _ in range(2):  # a late stop must not cost the answer
            with contextlib.suppress(KeyboardInterrupt):
                output.send({"done": ok})
                break


if __name__ == "__main__":
    main()
