from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from starlette.routing import Route

from lmtui.host.endpoints import KINDS, Endpoint, openapi_page
from lmtui.host.host_process import ENDPOINTS
from lmtui.models.demo_scripts import ScriptedTurn
from tests.host.conftest import DONE, WRITE, Host, Start

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PAGE = openapi_page(ENDPOINTS)
OPERATIONS = [(path, method.upper(), found) for path, methods in PAGE["paths"].items() for method, found in methods.items()]
ENDLESS = ("/v1/activity", "/v1/sessions/{id}/events")


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from ([value["$ref"]] if "$ref" in value else [])
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_the_page_is_openapi_3_1_and_its_references_lead_somewhere() -> None:
    assert PAGE["openapi"] == "3.1.0"
    assert PAGE["security"] == [{"token": []}]
    for reference in references(PAGE):
        assert reference.removeprefix("#/components/schemas/") in PAGE["components"]["schemas"]
    for schema in PAGE["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    identities = [found["operationId"] for _, _, found in OPERATIONS]
    assert len(identities) == len(set(identities))


async def test_the_page_lists_just_the_routes_that_there_are(start: Start) -> None:
    host = await start()
    assert (await host.call("GET", "/openapi.json")) == PAGE
    served = {
        (route.path, method)
        for route in host.app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    earlier = {each for each in served if each[0].startswith("/api/")}
    assert served - earlier - {("/openapi.json", "GET")} == {(path, method) for path, method, _ in OPERATIONS}
    assert len(earlier) == len(OPERATIONS)


async def fill(host: Host) -> dict[str, str]:
    """Make something of everything, and return values for the paths."""
    session_id = await host.new_session(message="write a file")
    asked = await host.approval(session_id)
    job = await host.call("POST", "/v1/jobs", json={"text": "later", "schedule": "every 1d"})
    return {"id": session_id, "approval_id": asked["approval_id"], "job_id": job["id"], "place": "0"}


GOOD_BODIES: dict[str, dict[str, Any]] = {
    "/v1/sessions": {"title": "T"},
    "/v1/sessions/{id}": {"title": "Other"},
    "/v1/sessions/{id}/fork": {},
    "/v1/sessions/{id}/messages": {"text": "more"},
    "/v1/sessions/{id}/approvals/{approval_id}": {"outcome": "no"},
    "/v1/sessions/{id}/mode": {"mode": "normal"},
    "/v1/sessions/{id}/plan": {"action": "reject"},
    "/v1/models/select": {"url": "http://127.0.0.1:9"},
    "/v1/jobs": {"text": "x"},
}


def order(operation: tuple[str, str, Any]) -> tuple[int, str]:
    """Return a key by which what deletes comes last."""
    path, method, _ = operation
    return (method == "DELETE", path)


async def test_every_answer_is_one_that_the_page_describes(start: Start) -> None:
    host = await start(WRITE, DONE, *(ScriptedTurn("Yes.") for _ in range(5)), mode="manual")
    values = await fill(host)
    seen: set[int] = set()
    for path, method, found in sorted(OPERATIONS, key=order):
        if path in (*ENDLESS, "/v1/chat/completions"):  # which waits for an approval
            continue
        for body in (GOOD_BODIES.get(path), {"surely": "unknown"}):
            answer = await ask(host, path.format(**values), method, body)
            check(found, answer)
            seen.add(answer.status_code)
    assert {200, 201, 202, 204, 409, 422} <= seen


async def ask(host: Host, path: str, method: str, body: Any) -> Any:
    if path == "/v1/uploads":
        return await host.client.post(path, content=b"text")
    more = {"json": body} if body is not None and method in ("POST", "PATCH") else {}
    return await host.client.request(method, path, **more)


def check(found: dict[str, Any], answer: Any) -> None:
    """Check an answer against what the page says of the operation."""
    told = found["responses"].get(str(answer.status_code))
    assert told is not None, (found["operationId"], answer.status_code, answer.text)
    content = told.get("content", {})
    if answer.status_code == 204:
        assert not answer.content
        return
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in content, (found["operationId"], answer.status_code, kind)
    Draft202012Validator({**content[kind]["schema"], "components": PAGE["components"]}).validate(answer.json())
    if answer.status_code >= 400:
        assert answer.json()["error"]["type"] == KINDS[answer.status_code]


_SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=30)
_VALUES = st.recursive(
    _SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3), max_leaves=6
)


def bodies(endpoint: Endpoint) -> st.SearchStrategy[Any]:
    """Return bodies of which some fields are right, some wrong and some unknown."""
    assert endpoint.body is not None
    fields = {name: _VALUES | known(each.annotation) for name, each in endpoint.body.model_fields.items()}
    return _VALUES | st.fixed_dictionaries({}, optional=fields)


def known(annotation: Any) -> st.SearchStrategy[Any]:
    words = [each for each in get_args(annotation) if isinstance(each, str)]
    return st.sampled_from(words) if words else st.text(max_size=20)


SAFE = [each for each in ENDPOINTS if each.body is not None and each.path not in ("/v1/models/select", "/v1/chat/completions")]


@pytest.mark.parametrize("endpoint", SAFE, ids=lambda each: f"{each.method} {each.path}")
@pytest.mark.full
async def test_no_body_makes_an_answer_that_the_page_does_not_describe(start: Start, endpoint: Endpoint) -> None:
    host = await start(*(ScriptedTurn("Yes.") for _ in range(60)), mode="plan")
    session_id = await host.new_session()
    found = PAGE["paths"][endpoint.path][endpoint.method.lower()]
    path = endpoint.path.format(id=session_id, approval_id="ask_x_1")
    for body in examples(endpoint):
        check(found, await host.client.request(endpoint.method, path, json=body))


def examples(endpoint: Endpoint) -> list[Any]:
    """Return some bodies, the same each time."""
    found: list[Any] = []

    @settings(max_examples=25, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(bodies(endpoint))
    def collect(body: Any) -> None:
        found.append(body)

    collect()
    return found


@pytest.mark.parametrize("path", sorted({each.path for each in ENDPOINTS if each.method == "GET" and each.path not in ENDLESS}))
@pytest.mark.full
async def test_no_parameter_makes_an_answer_that_the_page_does_not_describe(start: Start, path: str) -> None:
    host = await start(mode="plan")
    session_id = await host.new_session()
    found = PAGE["paths"][path]["get"]
    names = [each["name"] for each in found["parameters"] if each["in"] == "query"]
    for name in (*names, "unknown"):
        for value in ("", "x", "-1", "9" * 23, "%00", "..", "/etc", "a" * 5_000, "é\u202e", "today", "1&limit=2"):
            answer = await host.client.get(f"{path.format(id=session_id)}?{name}={value}")
            check(found, answer)
