"""OAuth for servers behind an address: the SDK's flow, tokens in the keyring or a 0600 file, the way back on the loopback.

Imported with the SDK only.  The browser is opened by whoever asked the user, never from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import socket
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, BaseModel, Field, ValidationError

from lmtui.features.mcp.values import ServerAddress
from lmtui.store.state_files import write_whole

_log = logging.getLogger(__name__)
_SERVICE = "lmtui-mcp"
_ANSWER = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nlmtui has its answer. This page can be closed.\n"
)
_HEAD_S = 10.0
_CALLBACK = "/callback"

Visit = Callable[[str], Awaitable[None]]


class _StoredLogin(BaseModel):
    """What is kept of one server: its tokens, what it registered lmtui as, and the port of the way back."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    port: Annotated[int | None, Field(ge=1, le=65_535)] = None


class TokenStore:
    """The tokens of one server, and what it registered lmtui as; implements the SDK's `TokenStorage`.

    Args:
        path: the file that is used without a keyring; its name is the name in the keyring.
        client: what the user registered themselves: `client_id`, `client_secret`.
    """

    def __init__(self, path: Path, client: dict[str, str]) -> None:
        self._path = path
        self._client = client
        self._keyring = _keyring()

    async def get_tokens(self) -> OAuthToken | None:
        return (await self._read()).tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens."""
        await self._write(tokens=tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return what the server registered lmtui as."""
        if client_id := self._client.get("client_id"):
            secret = self._client.get("client_secret") or None
            how = self._client.get("token_endpoint_auth_method") or ("client_secret_basic" if secret else "none")
            return OAuthClientInformationFull(client_id=client_id, client_secret=secret, token_endpoint_auth_method=how)
        return (await self._read()).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration."""
        await self._write(client=client_info)

    async def port(self) -> int:
        """Return the port of the way back: the one that was registered, else one that is free now."""
        if kept := (await self._read()).port:
            with contextlib.suppress(OSError):  # somebody else has it now
                return _free_port(kept)
        port = _free_port()
        await self._write(client=None, port=port)  # it was registered with another way back
        return port

    async def _read(self) -> _StoredLogin:
        try:
            return _StoredLogin.model_validate_json(await asyncio.to_thread(self._read_text) or "{}")
        except ValidationError:  # what is broken is as good as nothing: the user logs in again
            return _StoredLogin()

    async def _write(self, **changes: object) -> None:
        found = (await self._read()).model_copy(update=changes)
        await asyncio.to_thread(self._write_text, found.model_dump_json(exclude_none=True))

    def _read_text(self) -> str:
        if self._keyring is not None:
            return str(self._keyring.get_password(_SERVICE, self._path.stem) or "")
        try:
            return self._path.read_text(encoding="utf-8")
        except OSError:
            return ""

    def _write_text(self, text: str) -> None:
        if self._keyring is not None:
            self._keyring.set_password(_SERVICE, self._path.stem, text)
            return
        try:
            write_whole(self._path, text)
        except OSError as error:
            _log.warning("%s cannot be written, so the login holds for this run only: %s", self._path, error)


async def login_of(address: ServerAddress, visit: Visit) -> OAuthClientProvider:
    """Return what answers a server that wants a login: `visit` lets the user go to an address in their browser."""
    assert address.token_file is not None
    store = TokenStore(address.token_file, dict(address.oauth))
    port = await store.port()
    back: asyncio.Queue[AuthorizationCodeResult] = asyncio.Queue()

    async def go(url: str) -> None:
        async with _way_back(port, back):
            await visit(url)
            back.put_nowait(await back.get())  # the SDK takes it

    metadata = OAuthClientMetadata(
        client_name="lmtui",
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}{_CALLBACK}")],
        grant_types=["authorization_code", "refresh_token"],
        scope=address.oauth.get("scope") or None,
    )
    return OAuthClientProvider(
        address.url, metadata, store, go, back.get, client_metadata_url=address.oauth.get("client_metadata_url") or None
    )


@contextlib.asynccontextmanager
async def _way_back(port: int, back: asyncio.Queue[AuthorizationCodeResult]) -> AsyncIterator[None]:
    """Listen on the loopback for the browser that comes back with a code."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, IndexError):
            async with asyncio.timeout(_HEAD_S):
                line = (await reader.readline()).decode("latin-1")
            target = urllib.parse.urlsplit(line.split(" ")[1])
            given = {name: values[0] for name, values in urllib.parse.parse_qs(target.query).items()}
            if target.path == _CALLBACK and given.get("code"):
                back.put_nowait(AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss")))
            writer.write(_ANSWER.encode("ascii"))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


def _free_port(wanted: int = 0) -> int:
    """Return a port of the loopback that is free now.

    Raises:
        OSError: the wanted one is not.
    """
    with socket.create_server(("127.0.0.1", wanted)) as server:
        return int(server.getsockname()[1])


def _keyring() -> Any:  # Any: an optional package without types here
    """Return the keyring where there is one that works."""
    try:
        keyring = importlib.import_module("keyring")
        errors = importlib.import_module("keyring.errors")
    except ImportError:
        return None
    try:
        keyring.get_password(_SERVICE, "probe")
    except (errors.KeyringError, RuntimeError, OSError):
        return None
    return keyring
