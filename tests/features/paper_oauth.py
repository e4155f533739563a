"""An MCP server behind an address that wants a login, with its own authorization server; of the standard library alone."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL = {"name": "whoami", "description": "Tell the user.", "inputSchema": {"type": "object", "properties": {}}}


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        self.server.answered[str(code)] += 1

    def do_GET(self) -> None:
        self.server.seen[self.path.partition("?")[0]] += 1
        base = self.server.url
        if self.path.startswith("/.well-known/oauth-protected-resource"):
            self._json({"resource": f"{base}/mcp", "authorization_servers": [base]})
        elif self.path == "/.well-known/oauth-authorization-server":
            ends = {f"{name}_endpoint": f"{base}/{name}" for name in ("token", "registration")}
            more = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
            self._json({"issuer": base, "authorization_endpoint": f"{base}/authorize", **ends, **more})
        elif self.path.startswith("/authorize"):
            asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            back = f"{asked['redirect_uri'][0]}?code=c0de&state={asked['state'][0]}"
            self.send_response(302)
            self.send_header("Location", back)
            self.end_headers()
        else:
            self._json({}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen[self.path] += 1
        if self.path == "/registration":
            self._json({**json.loads(body), "client_id": "c1"}, 201)
        elif self.path == "/token":
            self._json({"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600})
        elif self.headers.get("Authorization") != "Bearer t0ken":
            self.send_response(401)
            self.send_header(
                "WWW-Authenticate", f'Bearer resource_metadata="{self.server.url}/.well-known/oauth-protected-resource"'
            )
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._answer(json.loads(body))

    def _answer(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self._json({}, 202)
            return
        info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "p", "version": "1"}}
        results: dict[str, Any] = {
            "initialize": info, "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": "Ada"}]}, "ping": {},
        }  # fmt: skip
        found = results.get(message["method"])
        error = {"error": {"code": -32601, "message": "Method not found"}}
        self._json({"jsonrpc": "2.0", "id": message["id"], **({"result": found} if found is not None else error)})

    def _json(self, value: object, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """Counts what is asked by path, in `seen`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
