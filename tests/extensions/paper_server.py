"""An MCP server for tests, of the standard library alone, so that it runs in every lane: `paper_server.py KEY=VALUE …`.

`tools=N` offers N tools beside its own; `die=NAME` ends at a call of that tool; `hang=start` answers nothing; `noise=1` talks
garbage on both outputs; `describe=FILE` takes the description of `echo` from a file each time that it lists; `call=NAME` gives
`echo` another name.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc000000301010018dd8db0"
        "0000000049454e44ae426082"
    )
).decode()
OPTIONS = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
LOCK = threading.Lock()
CANCELLED: set[Any] = set()
ANSWERS: dict[Any, Any] = {}


def send(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tool(name: str, description: str, /, **properties: Any) -> dict[str, Any]:
    required = [key for key, value in properties.items() if not value.pop("optional", False)]
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": required},
    }


def tools() -> list[dict[str, Any]]:
    description = Path(OPTIONS["describe"]).read_text() if "describe" in OPTIONS else "Say it back."
    own = [
        tool(OPTIONS.get("call", "echo"), description, text={"type": "string"}),
        tool("add", "Add two whole numbers.", a={"type": "integer"}, b={"type": "integer"}),
        tool("picture", "Draw a dot."),
        tool("all", "Return a block of every kind."),
        tool("wrong", "Fail."),
        tool("env", "Tell a variable.", name={"type": "string"}),
        tool("slow", "Take a while.", seconds={"type": "number"}),
        tool("write", "Write a file.", path={"type": "string"}, text={"type": "string"}),
        tool("ask", "Ask the user."),
        tool("more", "Offer one tool more."),
        tool("roots", "Tell the folders."),
        tool("pid", "Tell the number of the process."),
    ]
    extra = int(OPTIONS.get("tools", "0"))
    words = ("invoice", "ticket", "branch", "metric", "customer", "calendar", "deploy", "photo", "recipe", "sensor")
    verbs = ("create", "delete", "list", "update", "search", "archive", "export", "merge", "compare", "count")
    for number in range(extra):
        noun, verb = words[number % 10], verbs[number // 10 % 10]
        name = f"{verb}_{noun}" if number < 100 else f"{verb}_{noun}_{number // 100}"
        own.append(
            tool(
                name,
                f"{verb.title()} one {noun} of the shop, by its id.",
                id={"type": "string"},
                note={"type": "string", "optional": True},
            )
        )
    return own


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


Given = dict[str, Any]
Handler = Callable[[Any, Given], "dict[str, Any] | None"]


def call(number: Any, name: str, given: Given, meta: Given) -> dict[str, Any] | None:
    if OPTIONS.get("die") == name:
        os._exit(7)
    if name == "slow":
        return slow(number, float(given["seconds"]), meta.get("progressToken"))
    handler = HANDLERS.get(name)
    return handler(number, given) if handler else text(f"{name} {given.get('id', '')}".strip())


def add(_: Any, given: Given) -> dict[str, Any]:
    total = given["a"] + given["b"]
    return text(str(total), structuredContent={"total": total})


def of_every_kind(*_: Any) -> dict[str, Any]:
    return {
        "content": [
            {"type": "text", "text": "one"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "description": "a file"},
            {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "inside b"}},
            {"type": "resource", "resource": {"uri": "file:///c", "mimeType": "application/zip", "blob": "AAAA"}},
        ]
    }


def write(_: Any, given: Given) -> dict[str, Any]:
    try:
        Path(given["path"]).write_text(given["text"])
    except OSError as error:
        return {**text(f"not written: {error.strerror}"), "isError": True}
    return text("written")


def ask(number: Any, _: Given) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = {"message": "Who are you?", "requestedSchema": schema}
    send({"id": f"ask-{number}", "method": "elicitation/create", "params": params})
    return text(json.dumps(wait_for(f"ask-{number}")))


def roots(number: Any, _: Given) -> dict[str, Any]:
    send({"id": f"roots-{number}", "method": "roots/list"})
    return text(json.dumps(wait_for(f"roots-{number}")))


def more(*_: Any) -> dict[str, Any]:
    OPTIONS["tools"] = str(int(OPTIONS.get("tools", "0")) + 1)
    send({"method": "notifications/tools/list_changed"})
    return text("there is one more")


HANDLERS: dict[str, Handler] = {
    "echo": lambda _, given: text(given["text"]),
    "add": add,
    "picture": lambda *_: {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]},
    "all": of_every_kind,
    "wrong": lambda *_: text("it went wrong", isError=True),
    "env": lambda _, given: text(os.environ.get(given["name"], "(not set)")),
    "write": write,
    "ask": ask,
    "roots": roots,
    "more": more,
    "pid": lambda *_: text(str(os.getpid())),
}


def slow(number: Any, seconds: float, token: Any) -> dict[str, Any] | None:
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end:
        if number in CANCELLED:
            Path("cancelled").write_text("yes")
            return None
        step += 1
        if token is not None:
            params = {"progressToken": token, "progress": step, "total": 100, "message": f"step {step}"}
            send({"method": "notifications/progress", "params": params})
        time.sleep(0.02)
    return text("slept")


def wait_for(number: str) -> Any:
    end = time.monotonic() + 20
    while number not in ANSWERS and time.monotonic() < end:
        time.sleep(0.01)
    return ANSWERS.get(number)


def answer(message: dict[str, Any]) -> None:
    number, method, params = message["id"], message["method"], message.get("params") or {}
    match method:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "paper", "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
            send({"id": number, "result": result})
        case "tools/list":
            send({"id": number, "result": {"tools": tools()}})
        case "tools/call":
            result_or_none = call(number, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
            if result_or_none is not None:
                send({"id": number, "result": result_or_none})
        case "ping":
            send({"id": number, "result": {}})
        case _:
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    if "noise" in OPTIONS:
        print("\x1b[31mstarting\x1b]52;c;aGk=\x07 up", file=sys.stderr, flush=True)
        print("this is no message", flush=True)
    if OPTIONS.get("hang") == "start":
        time.sleep(3600)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            CANCELLED.add(message["params"]["requestId"])
        elif "method" in message and "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        elif "id" in message:
            ANSWERS[message["id"]] = message.get("result", message.get("error"))


if __name__ == "__main__":
    main()
