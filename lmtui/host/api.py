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
from lmtui.host import session_routes, wire, workspace_routes
from lmtui.host.access import ApiAccess
from lmtui.host.api_context import UPLOAD_BYTES, ApiContext, ApiOptions
from lmtui.host.chat_routes import CHAT_BYTES, chat
from lmtui.host.endpoints import Endpoint, openapi_page, routes_of, tell_error
from lmtui.host.hub import SessionHub
from lmtui.host.websocket import serve_websocket
from lmtui.registry import features, load

_SSE = "text/event-stream"
_ONE = "/v1/sessions/{id}"
_E = Endpoint

ENDPOINTS: tuple[_E, ...] = (
    _E("GET", "/v1/status", "The host as it is", workspace_routes.status, answer=wire.Status),
    _E("GET", "/v1/sessions", "List sessions", session_routes.listed, wire.SessionsQuery, answer=wire.SessionList),
    _E(
        "POST",
        "/v1/sessions",
        "Open a new session",
        session_routes.created,
        body=wire.NewSession,
        answer=wire.SessionDetail,
        status=201,
        errors=(502,),
    ),
    _E("GET", _ONE, "Show a session", session_routes.shown, answer=wire.SessionDetail),
    _E("PATCH", _ONE, "Rename a session", session_routes.renamed, body=wire.Rename, answer=wire.SessionDetail),
    _E("DELETE", _ONE, "Delete a session for good", session_routes.deleted, status=204),
    _E(
        "POST",
        f"{_ONE}/fork",
        "Copy a session",
        session_routes.forked,
        body=wire.Fork,
        answer=wire.NewId,
        status=201,
    ),
    _E("GET", f"{_ONE}/history", "Stored events", session_routes.history, wire.HistoryQuery, answer=wire.EventPage),
    _E(
        "GET",
        f"{_ONE}/events",
        "Stream events; Last-Event-ID resumes",
        session_routes.events,
        wire.EventsQuery,
        media=_SSE,
    ),
    _E(
        "POST",
        f"{_ONE}/messages",
        "Give a session a task",
        session_routes.said,
        body=wire.NewMessage,
        answer=wire.Receipt,
        status=202,
    ),
    _E(
        "POST",
        f"{_ONE}/interrupt",
        "Stop the running turn",
        session_routes.interrupted,
        answer=wire.Receipt,
        status=202,
    ),
    _E("GET", f"{_ONE}/approvals", "Open questions", session_routes.approvals, answer=wire.ApprovalList),
    _E(
        "POST",
        f"{_ONE}/approvals/{{approval_id}}",
        "Answer a question",
        session_routes.answered,
        body=wire.ApprovalAnswer,
        answer=wire.ApprovalDone,
    ),
    _E(
        "POST",
        f"{_ONE}/mode",
        "Change the mode",
        session_routes.mode_set,
        body=wire.ModeInfo,
        answer=wire.ModeInfo,
    ),
    _E(
        "POST",
        f"{_ONE}/plan",
        "Answer a plan",
        session_routes.plan_answered,
        body=wire.PlanReply,
        answer=wire.SessionDetail,
    ),
    _E("GET", f"{_ONE}/queue", "What waits", session_routes.queue, answer=wire.Queue),
    _E("POST", f"{_ONE}/queue/resume", "Take up what waits", session_routes.queue_resumed, answer=wire.Queue),
    _E(
        "DELETE",
        f"{_ONE}/queue/{{place}}",
        "Take back what waits",
        session_routes.queue_dropped,
        answer=wire.Queue,
    ),
    _E("GET", f"{_ONE}/files", "Files that it changed", session_routes.files, answer=wire.SessionFiles),
    _E("GET", f"{_ONE}/tasks", "Its todos and plan", session_routes.tasks, answer=wire.Tasks),
    _E("GET", f"{_ONE}/usage", "Its tokens", session_routes.usage, answer=wire.SessionUsage),
    _E("GET", "/v1/activity", "Stream the events of all sessions", session_routes.activity, wire.ActivityQuery, media=_SSE),
    _E(
        "GET",
        "/v1/files",
        "List a folder",
        workspace_routes.folder_listed,
        wire.FilesQuery,
        answer=wire.FolderListing,
        errors=(404,),
    ),
    _E(
        "GET",
        "/v1/files/content",
        "Read a file",
        workspace_routes.file_read,
        wire.FilesQuery,
        answer=wire.FileBody,
        errors=(404,),
    ),
    _E(
        "POST",
        "/v1/uploads",
        "Upload a picture or text",
        workspace_routes.uploaded,
        wire.UploadQuery,
        answer=wire.Upload,
        status=201,
        data_bytes=UPLOAD_BYTES,
        errors=(415,),
    ),
    _E("GET", "/v1/tools", "The tools of agents", workspace_routes.tools, wire.FolderQuery, answer=wire.ToolList),
    _E("GET", "/v1/models", "Agents, and models of servers", workspace_routes.models, wire.ModelsQuery, answer=wire.ModelList),
    _E(
        "POST",
        "/v1/models/select",
        "Use another model",
        workspace_routes.model_selected,
        body=wire.SelectModel,
        answer=wire.Receipt,
        errors=(404, 502),
    ),
    *(each for feature in features() if feature.routes for each in load(feature.routes)),
    _E(
        "POST",
        "/v1/chat/completions",
        "Chat with an agent in OpenAI's form",
        chat,
        body=wire.ChatRequest,
        answer=wire.ChatCompletion,
        errors=(404, 502),
        json_bytes=CHAT_BYTES,
    ),
)


def build_app(
    hub: SessionHub, access: ApiAccess, *, routes: Sequence[BaseRoute] = (), options: ApiOptions | None = None
) -> Starlette:
    """Return the application of a host; `routes` join those of the table behind the same access checks.

    `app.state.api` is what the handlers share.  `app.state.end` has streams end and further requests refused: the server
    calls it before it closes.  It follows the hub from now on.
    """
    api = ApiContext(hub, options or ApiOptions())
    page = openapi_page(ENDPOINTS)

    async def tell_page(request: Request) -> Response:
        del request
        return JSONResponse(page)

    app = Starlette(
        routes=[
            *routes_of(ENDPOINTS, api),
            Route("/openapi.json", tell_page),
            WebSocketRoute("/v1/ws", serve_websocket(api)),
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
