"""The HTTP API of a host: the table of all routes, and the application that is made of it."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from lmtui.core.errors import LmtuiError
from lmtui.host import chat_routes, session_routes, workspace_routes
from lmtui.host.access import ApiAccess
from lmtui.host.endpoints import ApiContext, openapi_page, tell_error
from lmtui.host.hub import SessionHub
from lmtui.host.websocket import serve_websocket
from lmtui.registry import features, load

ENDPOINTS = (
    *session_routes.ROUTES,
    *workspace_routes.ROUTES,
    *(each for feature in features() if feature.routes for each in load(feature.routes)),
    *chat_routes.ROUTES,
)


def build_app(hub: SessionHub, access: ApiAccess, routes: Sequence[BaseRoute] = (), **options: float) -> Starlette:
    """Return the application of a host; `routes` join those of the table behind the same access checks.

    `options` go to `ApiContext`.  `app.state.api` is what the handlers share.  `app.state.end` has
    streams end and further requests refused: the server calls it before it closes.  It follows the
    hub from now on.
    """
    api = ApiContext(hub, **options)

    async def tell_page(_: Request) -> Response:
        return JSONResponse(openapi_page(ENDPOINTS))

    app = Starlette(
        routes=[
            *ENDPOINTS,
            Route("/openapi.json", tell_page),
            WebSocketRoute("/v1/ws", serve_websocket),
            *routes,
        ],
        middleware=[Middleware(access.guard)],
        exception_handlers={HTTPException: tell_error, LmtuiError: tell_error, Exception: tell_error},
    )
    leave = hub.follow(api.feed.take)

    def end() -> None:
        access.is_closing = True
        api.feed.end()
        leave()

    app.state.api, app.state.end = api, end
    return app
