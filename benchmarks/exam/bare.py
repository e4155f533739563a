"""The bare loop that lmtui is compared with: four tools, no sandbox, no log, no questions."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_FENCE = re.compile(r"```(?:json)?\s*(\{.*?\})\s*```", re.DOTALL)
_MOST_STEPS = 6
_SYSTEM = "You are a coding agent. Work in the current folder through the tools. When the task is done, say so in plain words."


def _tool(name: str, doc: str, *arguments: str) -> dict[str, Any]:
    properties = {each: {"type": "string"} for each in arguments}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": doc, "parameters": parameters}}


_TOOLS = [
    _tool("ls", "List the folder."),
    _tool("read", "Read a file.", "path"),
    _tool("write", "Write a whole file.", "path", "content"),
    _tool("shell", "Run a bash command.", "command"),
]


def run_bare(url: str, model: str, folder: Path, ask: str) -> str:
    """Run one task and return the last answer."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": ask}]
    text, last = "", ""
    for _ in range(_MOST_STEPS):
        message = _post(url, {"model": model, "messages": messages, "tools": _TOOLS, "temperature": 0, "max_tokens": 512})
        text = message.get("content") or ""
        calls = message.get("tool_calls") or _in_text(text)
        if not calls or json.dumps(calls) == last:
            return text
        last = json.dumps(calls)
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": each["id"], "content": _run(folder, each["function"])} for each in calls]
    return text


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=600)
    connection.request("POST", f"{place.path}/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return dict(answer["choices"][0]["message"])


def _in_text(text: str) -> list[dict[str, Any]]:
    """Return a call that stands in the text as a fenced or bare object, as any loop for such models must."""
    fenced = _FENCE.search(text)
    try:
        found = json.loads(fenced[1] if fenced else text)
        function = {"name": str(found["name"]), "arguments": json.dumps(found["arguments"])}
    except (ValueError, KeyError, TypeError):
        return []
    return [{"id": "c1", "type": "function", "function": function}]


def _run(folder: Path, function: dict[str, Any]) -> str:
    try:
        given = json.loads(function["arguments"])
        match function["name"]:
            case "ls":
                return "\n".join(sorted(path.name for path in folder.iterdir()))
            case "read":
                return Path(folder, given["path"]).read_text()
            case "write":
                (folder / given["path"]).write_text(given["content"])
                return "ok"
            case "shell":
                command = ["bash", "-c", given["command"]]
                found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=False)
                return found.stdout + found.stderr or "ok"
            case _:
                return "no such tool"
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        return f"error: {error}"
