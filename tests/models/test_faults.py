from __future__ import annotations

import pytest

from lmtui.core.errors import ContextOverflow, Fault
from lmtui.models.provider_errors import status_error

URL = "http://127.0.0.1:11434/v1"


@pytest.mark.parametrize(("status", "body"), [
    (400, '{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error"}}'),
    (500, '{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}'),
    (
        400,
        '{"object":"error","message":"\\"auto\\" tool choice requires --enable-auto-tool-choice and --tool-call-parser '
        'to be set","type":"BadRequestError","code":400}',
    ),
], ids=["Ollama", "llama.cpp", "vLLM"])  # fmt: skip
def test_a_server_that_takes_no_tools_is_known_by_its_words(status: int, body: str) -> None:
    error = status_error(URL, "gemma:2b", status, body, "application/json")
    assert error.fault is Fault.NO_TOOLS
    assert "gemma:2b" in str(error)
    assert error.hint


@pytest.mark.parametrize(("status", "body"), [
    (400, '{"error":{"message":"tool call arguments must be JSON"}}'), (500, '{"error":{"message":"out of tools"}}'),
])  # fmt: skip
def test_other_words_about_tools_are_no_such_refusal(status: int, body: str) -> None:
    assert status_error(URL, "m", status, body).fault is not Fault.NO_TOOLS


PAGE = "<!DOCTYPE HTML>\n<html><head><title>%s</title></head><body><h1>Error</h1></body></html>"


def test_a_page_that_takes_no_requests_is_no_model_server() -> None:
    error = status_error(URL, "m", 501, PAGE % "Unsupported method", "text/html;charset=utf-8")
    assert error.fault is Fault.NOT_A_MODEL_SERVER


@pytest.mark.parametrize(
    ("page", "said"), [(PAGE % "502 Bad Gateway", "502 Bad Gateway"), ("<h1>Out</h1>\n<p>of order</p>", "Out of order")]
)
def test_of_a_proxys_page_only_the_words_are_told(page: str, said: str) -> None:
    error = status_error(URL, "m", 502, page, "text/html")
    assert (error.fault, str(error)) == (Fault.BUSY, f"{URL} failed (HTTP 502: {said})")


def test_a_window_that_cannot_be_is_not_told() -> None:
    error = status_error(URL, "m", 400, '{"error": {"message": "exceeds the context size", "n_ctx": ' + "9" * 5000 + "}}")
    assert isinstance(error, ContextOverflow)
    assert error.window_tokens == 0
