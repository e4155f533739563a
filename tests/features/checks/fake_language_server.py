"""A language server for tests: `ERROR` is an error, a name is used wherever it stands; `CRASH` ends it, `HANG` stops it."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any


def send(message: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any]:
    size = 0
    while (line := sys.stdin.buffer.readline().strip()) or not size:
        if not line and not size:
            sys.exit(0)
        size = int(line.partition(b":")[2]) if line.lower().startswith(b"content-length") else size
    message: dict[str, Any] = json.loads(sys.stdin.buffer.read(size))
    return message


def spans(text: str, pattern: str) -> list[dict[str, Any]]:
    """Return the ranges of a pattern, in UTF-16 units."""
    found = []
    for number, line in enumerate(text.split("\n")):
        for match in re.finditer(pattern, line):
            ends = [len(line[:at].encode("utf-16-le")) // 2 for at in match.span()]
            found.append({name: {"line": number, "character": at} for name, at in zip(("start", "end"), ends, strict=True)})
    return found


def main() -> None:
    while True:
        message = receive()
        method, params = message.get("method", ""), message.get("params") or {}
        document = params.get("textDocument", {})
        result: Any = None
        match method:
            case "initialize":
                send({"id": "c", "method": "workspace/configuration", "params": {"items": [{}, {}]}})
                result = {"capabilities": {}}
            case "textDocument/didOpen" | "textDocument/didChange":
                text = document.get("text") or params["contentChanges"][0]["text"]
                if "CRASH" in text:
                    sys.exit(3)
                if "HANG" in text:
                    time.sleep(60)
                errors = [{"range": each, "severity": 1, "message": "there is an ERROR"} for each in spans(text, "ERROR")]
                said = {"uri": document["uri"], "version": document["version"], "diagnostics": errors}
                send({"method": "textDocument/publishDiagnostics", "params": said})
            case "textDocument/references" | "textDocument/rename":
                path = Path(document["uri"].removeprefix("file://"))
                line = path.read_text().split("\n")[params["position"]["line"]]
                at = len(line.encode("utf-16-le")[: 2 * params["position"]["character"]].decode("utf-16-le"))
                name = re.match(r"\w+", line[at:])
                assert name is not None
                found = {each.as_uri(): spans(each.read_text(), rf"\b{name[0]}\b") for each in sorted(path.parent.glob("*.py"))}
                if method.endswith("rename"):
                    edits = {
                        uri: [{"range": each, "newText": params["newName"]} for each in all_] for uri, all_ in found.items()
                    }
                    result = {"changes": {uri: all_ for uri, all_ in edits.items() if all_}}
                else:
                    result = [{"uri": uri, "range": each} for uri, all_ in found.items() for each in all_]
            case "exit":
                sys.exit(0)
        if "id" in message and method:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
