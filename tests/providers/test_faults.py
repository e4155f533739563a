from __future__ import annotations

import pytest

from lmtui.core.errors import Fault
from lmtui.providers.faults import status_error

URL = "http://127.0.0.1:11434/v1"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, '{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error"}}'),
        (500, '{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}'),
        (
            400,
            '{"object":"error","message":"\\"auto\\" tool choice requires --enable-auto-tool-choice and --tool-call-parser '
            'to be set","type":"BadRequestError","code":400}',
        ),
    ],
    ids=["Ollama", "llama.cpp", "vLLM"],
)
def test_a_server_that_takes_no_tools_is_known_by_its_words(status: int, body: str) -> None:
    error = status_error(URL, "gemma:2b", status, body, "application/json")
    assert error.fault is Fault.NO_TOOLS
    assert "gemma:2b" in str(error)
    assert error.hint


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, '{"error":{"message":"tool call arguments must be JSON"}}'), (500, '{"error":{"message":"out of tools"}}')],
)
def test_other_words_about_tools_are_no_such_refusal(status: int, body: str) -> None:
    assert status_error(URL, "m", status, body).fault is not Fault.NO_TOOLS
