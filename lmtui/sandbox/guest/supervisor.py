"""The first process of an instance: takes requests from standard input, answers on standard output, ends with all below it.

One thread and one loop.  File operations are done in place; commands, searches and git run in child processes.
"""

from __future__ import annotations

import gc
import os
import re
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import ModuleType

from . import confinement, execute, files, linux, process_tree, protocol, settings
from .beneath import Refused, Root
from .capture import Capture, Spool
from .jobs import LIVE_EVERY_S, Job, RunningJobs
from .protocol import Message

_MAX_QUEUED_BYTES = 2_097_152
_SEARCH_S = 20.0
_MAX_ARGUMENT_BYTES = 131_000
_FOREVER_S = 10.0 * 365 * 86_400
_TREES = ("tree", "base", "source", "expected", "before", "after")


class FrameStream:
    """The frames from and to the other end.  `queued_bytes` wait until it takes them."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        # away from descriptors 0 and 1: nothing writes into the connection by accident
        self.input, self.output = os.dup(0), os.dup(1)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.close(null)
        for fd in (self.input, self.output):
            os.set_blocking(fd, False)
        self.queued_bytes = 0
        self._selector = selector
        self._decoder = protocol.Decoder()
        self._queue: deque[bytes] = deque()

    def take_input(self) -> list[Message] | None:
        """Return the messages that came, None at the end of the input."""
        try:
            data = os.read(self.input, protocol.CHUNK_BYTES)
        except BlockingIOError:
            return []
        return list(self._decoder.feed(data)) if data else None

    def send(self, frame: bytes) -> None:
        """Write a frame as soon as the other end takes it."""
        if not self._queue:
            self._selector.register(self.output, selectors.EVENT_WRITE, self._write_out)
        self._queue.append(frame)
        self.queued_bytes += len(frame)

    def _write_out(self) -> bool:
        """Write what the other end takes; False when it is gone."""
        while self._queue:
            frame = self._queue[0]
            try:
                written = os.write(self.output, frame)
            except BlockingIOError:
                return True
            except OSError:
                return False
            self.queued_bytes -= written
            if written < len(frame):
                self._queue[0] = frame[written:]
                return True
            self._queue.popleft()
        self._selector.unregister(self.output)
        return True


class Supervisor:
    """Serves one connection."""

    def __init__(self, options: settings.Settings) -> None:
        self._options = options = options.with_values(seccomp_filter=_filter(options))
        self._root = Root(options.root)
        self._added: dict[str, Root] = {}
        self._selector = selectors.DefaultSelector()
        self._stream = FrameStream(self._selector)
        self._woken, waking = os.pipe()
        for fd in (self._woken, waking):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        private: tuple[int, ...] = (self._stream.input, self._stream.output, self._woken, waking)
        if options.proxy:
            self._forwarder = _module("forward").Forwarder(self._selector, options.proxy)
            private = (*private, self._forwarder.fd)
        self._jobs = RunningJobs(self._selector, private, options.max_processes)
        self._spool = Spool()
        self._uploads: dict[int, bytearray] = {}
        shells = (f"{folder}/bash" for folder in os.environ.get("PATH", os.defpath).split(os.pathsep))
        self._shell = next((shell for shell in shells if os.access(shell, os.X_OK)), "/bin/sh")
        places, mounts = (options.root, options.folders), not options.is_landlocked
        self._guard = _module("guard").Guard(*places, has_mounts=mounts) if options.guards else None
        self._has_served = False
        # What returns nothing answers later, or never.
        self._operations: dict[str, Callable[[int, Message, bytes], Message | None]] = {
            "ping": lambda *_: {},
            "run": self._run,
            "git": self._git,
            "serve": self._serve,
            "input": lambda _, message, data: {"count": self._jobs.input_of(int(message["target"])).write(data)},
            "kill": lambda _, message, __: self._jobs.stop(int(message["target"])),
            "read": self._read,
            "write": self._write,
            "real": lambda _, message, __: files.real_paths(self._root_of(message), list(message["paths"])),
            "mkdir": self._mkdir,
            **dict.fromkeys(("listing", "glob", "grep"), self._search),
            "guard": self._ask_guard,
            "freeze": lambda *_: {"is_so": process_tree.freeze()},
            "thaw": self._thaw,
            "compare": self._compare,
            "checkpoint": self._checkpoint,
        }

    def serve(self) -> None:
        """Serve until the other end closes; then nothing is left below this process."""
        self._selector.register(self._stream.input, selectors.EVENT_READ, self._take_input)
        self._selector.register(self._woken, selectors.EVENT_READ, self._take_wakeup)
        self._stream.send(protocol.encode({"hello": protocol.VERSION, "pid": os.getpid(), "python": sys.version.split()[0]}))
        try:
            while self._step():
                pass
        finally:
            self._jobs.end_all()
            self._spool.remove()

    def _step(self) -> bool:
        """Wait for something and do it; False at the end of the input."""
        for key, _ in self._selector.select(self._jobs.wait_s()):
            if key.data() is False:
                return False
        self._jobs.watch(is_taken=self._stream.queued_bytes <= _MAX_QUEUED_BYTES)
        self._show_live()
        for job, result in self._jobs.take_finished():
            self._finish(job, result)
            if self._options.scratch and not self._jobs.jobs:
                self._empty_scratch()
        return True

    def _empty_scratch(self) -> None:
        """Remove what commands left in the folders that they may write to; saved outputs and what is mounted there stay."""
        for folder in self._options.scratch:
            for entry in os.scandir(folder):
                if entry.path == self._spool.folder or os.path.ismount(entry.path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    import_module("shutil").rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)
        os.makedirs(self._options.environment["HOME"], exist_ok=True)

    def _take_input(self) -> bool:
        messages = self._stream.take_input()
        for message in messages or ():
            self._dispatch(message)
        return messages is not None

    def _take_wakeup(self) -> bool:
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        self._jobs.reap()
        return True

    def _dispatch(self, message: Message) -> None:
        identity = int(message["id"])
        if "data" in message:
            upload = self._uploads.setdefault(identity, bytearray())
            if len(upload) <= protocol.MAX_UPLOAD_BYTES:
                upload += protocol.unpack(message["data"])
            return
        data = bytes(self._uploads.pop(identity, b""))
        try:
            answer = self._operations[message["op"]](identity, message, data)
        except Refused as refusal:
            answer = {"error": str(refusal)}
        except OSError as error:
            answer = {"error": f"the sandbox could not do it: {error.strerror or error}"}
        if answer is not None:
            self._answer(identity, answer)

    def _run(self, identity: int, message: Message, _data: bytes) -> None:
        if not self._options.has_shell:
            raise Refused("no shell in this sandbox")
        command = str(message["command"])
        if "\0" in command or len(os.fsencode(command)) > _MAX_ARGUMENT_BYTES:
            raise Refused("the command has a NUL character, or is longer than 128 KiB: put it into a file and run that")
        is_own = bool(message.get("is_own"))  # a test of lmtui's, which runs no program of the workspace
        environment = self._options.environment if is_own else self._options.commands_environment
        timeout_s = float(message["timeout_s"])
        run = partial(execute.run, (self._shell, "-c", command), environment, timeout_s, self._options)
        self._capture(identity, message, run, timeout_s)

    def _capture(self, identity: int, message: Message, run: Callable[..., Message], timeout_s: float) -> None:
        """Run a program of which head and tail are kept."""
        capture, has_input = Capture(self._spool), bool(message.get("takes_input"))
        job = self._jobs.start_program(identity, message, run, timeout_s, [capture.add], has_input=has_input)
        job.capture = capture

    def _serve(self, identity: int, message: Message, _data: bytes) -> None:
        """Start the one program that an instance serves: nothing of its output and errors is lost."""
        if not self._options.serves or self._has_served:
            raise Refused(f"this instance serves {'a program already' if self._has_served else 'no program'}")
        variables = {str(key): str(value) for key, value in message["variables"].items()}
        environment = self._options.commands_environment | variables
        options = self._options.with_values(root=os.path.join(self._options.root, str(message["folder"])))
        name, *rest = message["arguments"]
        whole = os.path.join(options.root, name) if "/" in name else name
        path = import_module("shutil").which(whole, path=environment.get("PATH", ""))
        if path is None:
            raise Refused(f"the program {name} is not there")
        run = partial(execute.run, (path, *rest), environment, _FOREVER_S, options)
        takes = [partial(self._send_piece, identity, stream) for stream in ("out", "err")]
        self._jobs.start_program(identity, message, run, _FOREVER_S, takes, has_input=True)
        self._has_served = True

    def _send_piece(self, identity: int, stream: str, piece: bytes, skipped: int = 0) -> None:
        self._stream.send(protocol.encode({"id": identity, stream: protocol.pack(piece), "skipped": skipped}))

    def _git(self, identity: int, message: Message, _data: bytes) -> None:
        given = [str(argument) for argument in message["arguments"]]
        calls = _module("git_calls")
        options = calls.in_folder(self._options, str(message.get("at", "")))
        arguments, environment = calls.git_command(given, options, str(message.get("reach", "")))

        timeout_s = float(message["timeout_s"])

        def run(streams: tuple[int, int, int]) -> Message:
            used = calls.git_environment(environment, arguments[0], given, options)
            ended = execute.run(arguments, used, timeout_s, options, streams, is_read=True)
            skipped = calls.skipped_hooks(environment, arguments[0], given[0], options)
            return {**ended, "skipped": skipped} if skipped else ended

        self._capture(identity, message, run, timeout_s)

    def _read(self, identity: int, message: Message, _data: bytes) -> None:
        facts, data = files.read(self._root_of(message), message["path"], int(message["max_bytes"]))
        self._answer(identity, facts, data)

    def _write(self, _identity: int, message: Message, data: bytes) -> Message:
        self._refuse_changes(message)
        return files.write(self._root_of(message), message["path"], data, message.get("expect_sha256"))

    def _mkdir(self, _identity: int, message: Message, _data: bytes) -> Message:
        self._refuse_changes(message)
        return files.make_directory(self._root_of(message), message["path"])

    def _root_of(self, message: Message) -> Root:
        """Return the workspace, or the added folder that the message names, or that of saved outputs."""
        folder = str(message.get("folder", ""))
        if not folder:
            return self._root
        if folder not in (*self._options.folders, self._spool.folder):
            raise Refused(f"{folder}: path is outside the workspace")
        if folder not in self._added:
            self._added[folder] = Root(folder)
        return self._added[folder]

    def _refuse_changes(self, message: Message) -> None:
        folder = message.get("folder")
        if folder and folder not in self._options.writable:
            raise Refused(f"{folder} is an added folder, which is read-only here")
        if not folder and self._options.is_read_only:
            raise Refused("the workspace is read-only here")

    def _search(self, identity: int, message: Message, _data: bytes) -> None:
        root, what = self._root_of(message), message["op"]
        tasks: dict[str, Callable[[], Message]] = {
            "listing": lambda: _module("listing").answer(root, message, self._options),
            "glob": lambda: _module("listing").glob(root, message["expression"], message["max_results"]),
            "grep": lambda: _module("listing").grep(root, message["query"]),
        }
        job = self._jobs.start(identity, tasks[what], _SEARCH_S)
        if what == "listing":
            job.max_result_bytes = _module("listing").MAX_RESULT_BYTES

    def _checkpoint(self, identity: int, message: Message, given: bytes) -> Message | None:
        """Serve the checkpoint store.  What is quick is done in place: no command runs in this instance."""
        if not self._options.store:
            raise Refused("this instance keeps no checkpoints")
        checkpoints, trees = _module("checkpoints"), filter(None, map(message.get, _TREES))
        if not all(re.fullmatch(r"[0-9a-f]{40}", str(tree)) for tree in trees):
            raise Refused("that is not a checkpoint")
        store = checkpoints.Store(self._options.store, self._root, self._options.max_kept_file_mb << 20)
        if message["action"] == "content":
            data = store.content(str(message["tree"]), str(message["path"]))
            self._answer(identity, {"is_so": data is not None}, data or b"")
        elif message["action"] == "patch":
            self._answer(identity, {"is_so": True}, store.patch(str(message["before"]), str(message["after"])))
        else:
            state: Message | None = store.unchanged() if message["action"] == "snapshot" else None
            if state is not None:
                return state
            self._jobs.start(identity, lambda: _module("restore").run(store, message, given), checkpoints.LONGEST_S)
        return None

    def _ask_guard(self, _identity: int, message: Message, _data: bytes) -> Message:
        if self._guard is None:
            raise Refused("this instance guards nothing")
        answer: Message = self._guard.answer(message)
        return answer

    def _thaw(self, *_: object) -> Message:
        process_tree.thaw()
        return {}

    def _compare(self, _identity: int, message: Message, _data: bytes) -> Message:
        """Report masked paths that are readable, and other paths whose files were replaced."""
        visible: list[str] = []
        replaced = [path for path, *_ in message["read_only"]]
        for path in message["masked"]:
            with suppress(OSError):  # one in an added folder is a whole path
                os.close(os.open(os.path.join(self._options.root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
                visible.append(path)
        for path, *expected in message["read_only"]:
            with suppress(OSError):
                facts = os.lstat(os.path.join(self._options.root, path))
                if [facts.st_dev, facts.st_ino] == expected:
                    replaced.remove(path)
        return {"visible": visible, "replaced": replaced}

    def _show_live(self) -> None:
        now = time.monotonic()
        for job in self._jobs.jobs.values():
            is_due = now - job.shown_at > LIVE_EVERY_S and self._stream.queued_bytes < _MAX_QUEUED_BYTES
            if job.capture is not None and job.capture.live and is_due:
                job.shown_at = now
                self._send_piece(job.id, "out", *job.capture.take_live())

    def _finish(self, job: Job, result: Message) -> None:
        if len(job.outputs) == 1:  # not a program
            stopped = {"error": f"it took too long or was stopped ({result.get('reason')})"}
            data = protocol.unpack(result.pop("data", ""))
            self._answer(job.id, stopped if "reason" in result else result, data)
            return
        facts, data = {"exit": 137, "clean": True, **result}, b""
        if (capture := job.capture) is not None:
            if job.input is not None:  # of one that stays only the pieces are read
                self._send_piece(job.id, "out", *capture.take_live())
            data = bytes(capture.head + capture.tail)
            facts |= {
                "head_bytes": len(capture.head),
                "total": capture.total_bytes,
                "saved": capture.saved_path,
                "elapsed_ms": int((time.monotonic() - job.started) * 1000),
            }
        self._answer(job.id, facts, data)

    def _answer(self, identity: int, facts: Message, data: bytes = b"") -> None:
        for frame in protocol.data_frames(identity, data):
            self._stream.send(frame)
        self._stream.send(protocol.encode({"id": identity, "done": True, **facts}))


def _module(name: str) -> ModuleType:
    """Return a module that few instances need: every import makes each start slower, and all of them doubled it."""
    return import_module(f".{name}", __package__)


def _import_the_rest() -> None:
    """Import what is otherwise imported late: the user that root turns into may not be able to read this Python."""
    for name in ("hashlib", "shutil", "tempfile", "encodings.ascii"):
        import_module(name)
    for name in ("checkpoints", "effects", "guard", "listing", "restore"):
        _module(name)


def _filter(options: settings.Settings) -> bytes:
    """Return the filter for commands, empty where nothing around them is confined."""
    if not options.is_confined:
        return b""
    machine = os.uname().machine
    if not options.is_landlocked:
        return confinement.build_filter(machine)
    families = confinement.INTERNET if options.has_network else ()
    keeps_metadata = os.geteuid() == 0 and options.has_shell  # root owns the system's files; git's instance runs git alone
    return confinement.build_filter(machine, families, is_shared=True, keeps_metadata=keeps_metadata)


def main() -> None:
    """Serve with the settings of the first argument."""
    options = settings.parse(sys.argv[1])
    linux.set_process(linux.PR_SET_DUMPABLE, 0)
    linux.set_process(linux.PR_SET_CHILD_SUBREAPER, 1)
    if options.is_landlocked:
        if os.geteuid() == 0 and options.owner > 0:
            _import_the_rest()
        confinement.enter_reduced(options)
    elif options.is_confined:
        os.makedirs(options.environment["HOME"], exist_ok=True)
    os.environ.clear()
    os.environ.update(options.environment)
    supervisor = Supervisor(options)
    gc.freeze()  # a fork copies the pages that a collection touches, and each command forks twice
    supervisor.serve()
    os._exit(0)  # there is nothing to tear down, and that takes as long as a tenth of the start
