"""Asks a language server about a workspace: what is wrong in files, where a name is used, what a rename would change.

Runs inside the sandbox by its source, on the standard library alone; it reads one JSON object (its argument) and writes one.
The protocol is LSP 3.17 over standard input and output; positions count UTF-16 units, as every server understands.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

_QUIET_S = 1.0
_MOST_ERRORS, _MOST_PLACES, _MOST_CHARS = 20, 200, 300
_MOST_BYTES = 60_000  # more output would not arrive whole
_OF_ENVIRONMENT = ("reportMissingImports", "reportMissingModuleSource", "unresolved-import", 2307, 7016)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)?")
_CAPABILITIES = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {"configuration": True, "workspaceFolders": True, "workspaceEdit": {"documentChanges": True}},
    "textDocument": {
        "synchronization": {},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {},
        "references": {},
        "rename": {},
    },
}


class Failed(Exception):
    """The server did not answer; the text says why."""


class Server:
    """One language server, from its start to its end.

    Args:
        command: the program with its arguments.
        limit_s: when to give up, in seconds from now.
    """

    def __init__(self, command: list[str], limit_s: float) -> None:
        self.ends_at = time.monotonic() + limit_s
        self.root = pathlib.Path.cwd()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._came: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._count = 0
        self._published: dict[str, list[dict[str, Any]]] = {}
        self._versions: dict[str, int] = {}
        threading.Thread(target=self._read, daemon=True).start()
        folder = {"uri": self.root.as_uri(), "name": self.root.name}
        asked = {"processId": None, "rootUri": folder["uri"], "workspaceFolders": [folder], "capabilities": _CAPABILITIES}
        self._can: dict[str, Any] = (self.ask("initialize", asked) or {}).get("capabilities", {})
        self._send({"method": "initialized", "params": {}})

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with contextlib.suppress(OSError, ValueError, RecursionError):
            while head := stream.readline():
                size = 0
                while head.strip():
                    name, _, value = head.partition(b":")
                    size = int(value) if name.strip().lower() == b"content-length" else size
                    head = stream.readline()
                if size:
                    self._came.put(json.loads(stream.read(size)))
        self._came.put(None)

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        stream = self._process.stdin
        assert stream is not None
        try:
            stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            stream.flush()
        except OSError as error:
            raise Failed("it ended") from error

    def _take(self, wait_s: float) -> dict[str, Any]:
        """Return the next message; what it asks of an editor is answered with nothing.

        Raises:
            TimeoutError: none came in time.
        """
        try:
            message = self._came.get(timeout=max(0.0, min(wait_s, self.ends_at - time.monotonic())))
        except queue.Empty:
            if time.monotonic() >= self.ends_at:
                raise Failed("it took too long") from None
            raise TimeoutError from None
        if message is None:
            try:
                raise Failed(f"it ended with exit code {self._process.wait(_QUIET_S)}")
            except subprocess.TimeoutExpired:
                raise Failed("its output could not be parsed") from None
        if "method" in message and "id" in message:
            items = (message.get("params") or {}).get("items", ())
            self._send({"id": message["id"], "result": [None] * len(items) if "configuration" in message["method"] else None})
        elif message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            if params.get("version") in (None, self._versions.get(params["uri"])):
                self._published[params["uri"]] = params["diagnostics"]
        return message

    def ask(self, method: str, params: Any) -> Any:
        """Send a request and return its result."""
        self._count += 1
        number = self._count
        self._send({"id": number, "method": method, "params": params})
        while True:
            with contextlib.suppress(TimeoutError):
                message = self._take(self.ends_at)
                if message.get("id") == number and "method" not in message:
                    if "error" in message:
                        raise Failed(str(message["error"].get("message", "it refused")))
                    return message.get("result")

    def show(self, texts: dict[str, str | None]) -> None:
        """Show files with these texts to the server; None closes a file, so that the server reads it from disk."""
        self._published.clear()
        for path, text in texts.items():
            uri = self.uri(path)
            is_open, version = uri in self._versions, self._versions.get(uri, 0) + 1
            if text is None:
                if is_open:
                    del self._versions[uri]
                    self._send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}})
                continue
            self._versions[uri] = version
            document: dict[str, Any] = {"uri": uri, "version": version}
            if is_open:
                params = {"textDocument": document, "contentChanges": [{"text": text}]}
                self._send({"method": "textDocument/didChange", "params": params})
            else:
                document |= {"languageId": language_of(path), "text": text}
                self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def settle(self) -> None:
        """Wait until the server is quiet for a second: some load the workspace only after `initialized`."""
        with contextlib.suppress(TimeoutError):
            while True:
                _ = self._take(_QUIET_S)

    def errors(self) -> list[tuple[str, int, str]]:
        """Return path, line and message of the errors in the files that are shown."""
        found = {uri: self._pulled(uri) if "diagnosticProvider" in self._can else None for uri in list(self._versions)}
        if None in found.values():
            with contextlib.suppress(TimeoutError):
                while True:  # until nothing more comes after every file was reported
                    is_told = self._published.keys() >= self._versions.keys()
                    _ = self._take(_QUIET_S if is_told else self.ends_at)
            found = {uri: self._published.get(uri, []) for uri in found}
        return [
            (self.path(uri), each["range"]["start"]["line"] + 1, " ".join(str(each["message"]).split())[:_MOST_CHARS])
            for uri, said in found.items()
            for each in said or ()
            if each.get("severity") == 1 and each.get("code") not in _OF_ENVIRONMENT
        ]

    def _pulled(self, uri: str) -> list[dict[str, Any]] | None:
        result = self.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
        items = (result or {}).get("items")
        return items if isinstance(items, list) else []

    def uri(self, path: str) -> str:
        """Return the address of a file of the workspace."""
        return (self.root / path).as_uri()

    def path(self, uri: str) -> str:
        """Return the path of a file; one outside the workspace stays absolute."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(uri).path)
        return os.path.relpath(path, self.root) if path.startswith(f"{self.root}/") else path

    def close(self) -> None:
        """Shut the server down, and kill it if it does not exit within a second."""
        with contextlib.suppress(Failed, OSError):
            self.ends_at = min(self.ends_at, time.monotonic() + _QUIET_S)
            _ = self.ask("shutdown", None)
            self._send({"method": "exit"})
            _ = self._process.wait(_QUIET_S)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.kill()


def language_of(path: str) -> str:
    """Return the protocol's name of a file's language."""
    ending = path.rpartition(".")[2]
    names = {"py": "python", "pyi": "python", "rs": "rust", "tsx": "typescriptreact", "jsx": "javascriptreact"}
    return names.get(ending, "go" if ending == "go" else "typescript" if ending.endswith("ts") else "javascript")


def text_of(path: str) -> str:
    """Return the text of a file, its line ends as they are."""
    return pathlib.Path(path).read_bytes().decode("utf-8")


def new_errors(server: Server, old: dict[str, str | None]) -> list[str]:
    """Return the errors that files have and did not have with their old texts, as `path:line: message`.

    The new texts are looked at first: a server that is not done with loading says too little then, never too much.
    """
    server.show({path: text_of(path) for path in old})
    now = server.errors()
    server.show(old)
    before = Counter((path, message) for path, _, message in server.errors()) if any(old.values()) else Counter()
    found: list[str] = []
    for path, line, message in now:
        if before[path, message] > 0:
            before[path, message] -= 1
        else:
            found.append(f"{path}:{line}: {message}")
    return found[:_MOST_ERRORS]


def position(path: str, line: int, name: str) -> dict[str, int]:
    """Return where a name is in a line (from 1), as the protocol counts."""
    lines = _LINE.findall(text_of(path))
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
    if match is None:
        raise Failed(f"{name!r} is not in line {line} of {path}")
    return {"line": line - 1, "character": len(text[: match.start()].encode("utf-16-le")) // 2}


def references(server: Server, path: str, where: dict[str, int]) -> list[list[Any]]:
    """Return path, line and text of the places where a name is used."""
    server.show({path: text_of(path)})
    server.settle()
    asked = {"textDocument": {"uri": server.uri(path)}, "position": where, "context": {"includeDeclaration": True}}
    found = server.ask("textDocument/references", asked) or []
    places = sorted({(server.path(each["uri"]), each["range"]["start"]["line"]) for each in found})
    shown: list[list[Any]] = []
    for name, line in places[:_MOST_PLACES]:
        with contextlib.suppress(OSError, UnicodeError, IndexError):
            shown.append([name, line + 1, _LINE.findall(text_of(name))[line].strip()[:_MOST_CHARS]])
    while len(json.dumps(shown)) > _MOST_BYTES:
        del shown[-(len(shown) // 4 or 1) :]
    return shown


def renamed(server: Server, path: str, where: dict[str, int], name: str) -> dict[str, Any]:
    """Return, for each file that a rename changes, the hash of its bytes and the edits: first and last character, new text."""
    server.show({path: text_of(path)})
    server.settle()
    asked = {"textDocument": {"uri": server.uri(path)}, "position": where, "newName": name}
    result = server.ask("textDocument/rename", asked) or {}
    changes: dict[str, list[Any]] = dict(result.get("changes") or {})
    for each in result.get("documentChanges") or ():
        if "textDocument" not in each:
            raise Failed("the rename would move files, which is not supported")
        changes.setdefault(each["textDocument"]["uri"], []).extend(each["edits"])
    found: dict[str, Any] = {}
    for uri, edits in changes.items():
        file = server.path(uri)
        data = pathlib.Path(file).read_bytes()
        lines = _LINE.findall(data.decode("utf-8"))
        told = [[*offsets(lines, each["range"]), each["newText"]] for each in edits]
        found[file] = {"sha256": hashlib.sha256(data).hexdigest(), "edits": told}
    if len(json.dumps(found)) > _MOST_BYTES:
        raise Failed("the rename changes too many places to be shown")
    return found


def offsets(lines: list[str], span: dict[str, dict[str, int]]) -> Iterable[int]:
    """Yield the first and the last character of a range of lines and UTF-16 units."""
    for end in (span["start"], span["end"]):
        line = lines[end["line"]] if end["line"] < len(lines) else ""
        units = line.encode("utf-16-le")[: 2 * end["character"]]
        yield sum(map(len, lines[: end["line"]])) + len(units.decode("utf-16-le", "ignore"))


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Answer a question with the first installed server: its name and a result or `problem`; an empty name if there is none."""
    places = os.pathsep.join((".venv/bin", "node_modules/.bin", os.environ.get("PATH", "")))
    found = ((command, shutil.which(command[0], path=places)) for command in asked["servers"])
    command, program = next(((command, program) for command, program in found if program), ([""], ""))
    if not program:
        return {"server": ""}
    server: Server | None = None
    told: dict[str, Any] = {"server": command[0]}
    try:
        server = Server([str(pathlib.Path(program).absolute()), *command[1:]], asked["limit_s"])
        if asked["what"] == "errors":
            return told | {"errors": new_errors(server, asked["old"])}
        path = asked["path"]
        where = position(path, asked["line"], asked["name"])
        if asked["what"] == "references":
            return told | {"places": references(server, path, where)}
        return told | {"files": renamed(server, path, where, asked["new_name"])}
    except (Failed, OSError, UnicodeError, AttributeError, LookupError, TypeError, ValueError) as error:
        return told | {"problem": str(error) or type(error).__name__}
    finally:
        if server is not None:
            server.close()


if __name__ == "__main__":
    print(json.dumps(main(json.loads(zlib.decompress(base64.b64decode(sys.argv[1]))))), flush=True)
    os._exit(0)
