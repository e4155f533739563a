"""`lmtui acp` as a process of its own, and an editor that writes raw JSON to it; the SDK's models check all that it sends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
from acp import schema
from pydantic import BaseModel

from lmtui.models.demo_scripts import Scenario
from lmtui.models.scripted_server import ScriptedServer
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]

Message = dict[str, Any]
_RESULTS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/close": schema.CloseSessionResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
    "session/prompt": schema.PromptResponse,
}
_PARAMS: dict[str, type[BaseModel]] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "$/cancel_request": schema.CancelRequestNotification,
}


class ModelServer:
    """The scripted model server in a thread of its own, so that any number of tests may use it."""

    def __init__(self, *scenarios: Scenario) -> None:
        self._scenarios = scenarios
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        self._server = ScriptedServer(*self._scenarios)
        asyncio.run_coroutine_threadsafe(self._server.__aenter__(), self._loop).result()
        return self._server

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._server.__aexit__(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Refused(Exception):
    """The agent answered with an error."""

    def __init__(self, error: Message) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Agent:
    """The process and its editor.

    Args:
        workspace: where it is started.
        home: its state.
        arguments: behind `lmtui acp`.
        environ: more variables.
    """

    def __init__(
        self,
        workspace: Path,
        home: Path,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        launcher: tuple[str, ...] = (),
    ) -> None:
        names = ("PATH", "LANG", "HOME", "TMPDIR")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        self.workspace = workspace
        self.errors = (home.parent / f"stderr-{time.monotonic_ns()}").open("w+b")
        self.process = subprocess.Popen(
            [*launcher, sys.executable, "-m", "lmtui", "acp", *arguments],
            cwd=workspace,
            env=kept | {"LMTUI_HOME": str(home), "PYTHONPATH": str(ROOT)} | dict(environ or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        self.answers: dict[str, Callable[[Message], Any]] = {"session/request_permission": choose("once")}
        self.lines: list[bytes] = []
        self.received: list[Message] = []
        self.asked: list[Message] = []
        self._methods: dict[Any, str] = {}
        self._ids = itertools.count(1)
        self._messages: queue.Queue[Message | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            try:
                found = json.loads(line)
            except ValueError:
                found = {"method": "not JSON", "params": {"line": repr(line)}}
            self._messages.put(found)
        self._messages.put(None)

    # -- what the editor sends ------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Message) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, request_id: int | str | None = None, **params: Any) -> int | str:
        request_id = request_id if request_id is not None else next(self._ids)
        self._methods[request_id] = method
        self.send({"id": request_id, "method": method, "params": params})
        return request_id

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    # -- what it reads --------------------------------------------------------------------------------------------------

    def next(self, limit_s: float = PATIENCE_S) -> Message | None:
        """Return the next message, after answering it where it is a question; None at the end of output."""
        try:
            message = self._messages.get(timeout=limit_s)
        except queue.Empty:
            raise TimeoutError(f"nothing in {limit_s} s; the last was {self.received[-3:]}\n{self.stderr()}") from None
        if message is None:
            return None
        self.received.append(message)
        self._check(message)
        if "method" in message and "id" in message:
            self.asked.append(message)
            answer = self.answers.get(message["method"])
            if answer is None:
                self.send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})
            elif (found := answer(message["params"])) is not None:
                self.send({"id": message["id"], "result": found})
        return message

    def _check(self, message: Message) -> None:
        """Check a message against the models of the protocol, unknown keys included."""
        assert message.get("jsonrpc") == "2.0", message
        if "method" in message:
            model = _PARAMS.get(message["method"])
            assert model is not None or message["method"] in self.answers, message
            if model is not None:
                _strictly(model, message["params"])
            return
        assert ("result" in message) != ("error" in message), message
        if "error" in message:
            error = message["error"]
            assert isinstance(error["code"], int), message
            assert error["message"], message
            assert "\n" not in error["message"]
        elif (method := self._methods.get(message["id"])) is not None:
            _strictly(_RESULTS[method], message["result"])

    def until(self, is_it: Callable[[Message], bool], limit_s: float = PATIENCE_S) -> Message:
        """Read until a message fits, and return it."""
        end = time.monotonic() + limit_s
        while True:
            message = self.next(max(0.01, end - time.monotonic()))
            assert message is not None, f"the end came first\n{self.stderr()}"
            if is_it(message):
                return message

    def answer_to(self, request_id: int | str, limit_s: float = PATIENCE_S) -> Message:
        """Return the response to a request."""
        return self.until(lambda each: "method" not in each and each.get("id") == request_id, limit_s)

    def call(self, method: str, limit_s: float = PATIENCE_S, **params: Any) -> Message:
        """Send a request and return its result.

        Raises:
            Refused: it is an error.
        """
        answer = self.answer_to(self.request(method, **params), limit_s)
        if "error" in answer:
            raise Refused(answer["error"])
        result: Message = answer["result"]
        return result

    def quiet(self, limit_s: float = 0.4) -> list[Message]:
        """Return what arrives in a short time."""
        found = []
        end = time.monotonic() + limit_s
        while (left := end - time.monotonic()) > 0:
            try:
                message = self.next(left)
            except TimeoutError:
                break
            if message is None:
                break
            found.append(message)
        return found

    # -- the usual ------------------------------------------------------------------------------------------------------

    def initialize(self, **capabilities: Any) -> Message:
        return self.call("initialize", protocolVersion=1, clientCapabilities=capabilities)

    def new_session(self, cwd: Path | None = None, **params: Any) -> str:
        given = {"cwd": str(cwd or self.workspace), "mcpServers": []} | params
        return str(self.call("session/new", **given)["sessionId"])

    def prompt(self, session_id: str, text: str, limit_s: float = PATIENCE_S) -> str:
        answer = self.call("session/prompt", limit_s, sessionId=session_id, prompt=[{"type": "text", "text": text}])
        return str(answer["stopReason"])

    def updates(self, kind: str = "", since: int = 0) -> list[Message]:
        """Return the updates so far, of one kind."""
        found = [each["params"]["update"] for each in self.received[since:] if each.get("method") == "session/update"]
        return [each for each in found if not kind or each["sessionUpdate"] == kind]

    def said(self, kind: str = "agent_message_chunk", since: int = 0) -> str:
        """Return the text of all chunks."""
        return "".join(each["content"].get("text", "") for each in self.updates(kind, since))

    def stderr(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def family(self) -> list[psutil.Process]:
        """Return the process and all that it started."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def end(self, limit_s: float = PATIENCE_S) -> None:
        """Close the input and wait until the process has ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(limit_s) == 0

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _strictly(model: type[BaseModel], value: Message) -> None:
    model.model_validate(value)
    known = {field.alias or name for name, field in model.model_fields.items()}
    assert set(value) <= known | {"_meta"}, (model, value)


def choose(option_id: str) -> Callable[[Message], Message]:
    """Return what answers a permission request with one of its options."""
    return lambda params: {"outcome": {"outcome": "selected", "optionId": option_id}}
