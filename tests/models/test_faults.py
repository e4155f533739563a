from __future__ import annotations

import json

from lmtui.core.errors import ContextOverflow, Fault
from lmtui.models.provider_errors import status_error
from tests.sets import for_each

URL = "http://127.0.0.1:11434/v1"


@for_each(("status", "body"), [
    (400, '{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error"}}'),
    (500, '{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}'),
    (
        400,
        '{"object":"error","message":"\\"auto\\" tool choice requires --enable-auto-tool-choice and --tool-call-parser '
        'to be set","type":"BadRequestError","code":400}',
    ),
])  # fmt: skip
def test_a_server_that_takes_no_tools_is_known_by_its_words(status: int, body: str) -> None:
    error = status_error(URL, "gemma:2b", status, body, "application/json")
    assert (error.fault, "gemma:2b" in str(error), error.hint != "") == (Fault.NO_TOOLS, True, True)
    for other in ("tool call arguments must be JSON", "out of tools"):
        assert status_error(URL, "m", status, json.dumps({"error": {"message": other}})).fault is not Fault.NO_TOOLS


PAGE = "<!DOCTYPE HTML>\n<html><head><title>%s</title></head><body><h1>Error</h1></body></html>"


def test_a_page_that_takes_no_requests_is_no_model_server_and_of_a_proxys_only_the_words_are_told() -> None:
    error = status_error(URL, "m", 501, PAGE % "Unsupported method", "text/html;charset=utf-8")
    assert error.fault is Fault.NOT_A_MODEL_SERVER
    for page, said in ((PAGE % "502 Bad Gateway", "502 Bad Gateway"), ("<h1>Out</h1>\n<p>of order</p>", "Out of order")):
        error = status_error(URL, "m", 502, page, "text/html")
        assert (error.fault, str(error)) == (Fault.BUSY, f"{URL} failed (HTTP 502: {said})")


@for_each(("said", "window"), [
    ("request (9030 tokens) exceeds the available context size (8192 tokens), try increasing it", 8192),
    (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the "
        "messages, 1000 in the completion). Please reduce the length of the messages or completion.",
        4096,
    ),
    (
        "The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        4096,
    ),
    ("Prompt length 9000 is greater than max_seq_len 4096", 4096),
    (
        "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with "
        "context length of only 4096 tokens, which is not enough.",
        4096,
    ),
    ("`inputs` must have less than 4096 tokens. Given: 5000", 4096),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3900 `inputs` tokens and 300 `max_new_tokens`", 4096),
    ("Input length (9000 tokens) exceeds the maximum allowed length (4096 tokens).", 4096),
    ("The input (9000 tokens) is longer than the model's context length (4096 tokens).", 4096),
    (
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total "
        "of 9000 tokens",
        8192,
    ),
    ("the input length exceeds the context length", 0),
    ("prompt is too long", 0),
    ("Context size has been exceeded.", 0),
    ("Input is too long for requested model.", 0),
    ("Requested tokens (9000) exceed context window of 4096", 4096),
    ("prompt is too long: 213462 tokens > 200000 maximum", 200000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).", 1048575),
    ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 32768),
    ("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000", 4081),
    ("prompt length (9000) exceeds maximum input length (4096). Set log level to info", 4096),
    ("The sum of prompt length (9000.0), query length (0) max_tokens (100) should not exceed max_num_tokens (8192)", 8192),
    ("The prompt is too long: 9000, model maximum context length: 4096", 4096),
    ("Request body too large for gpt-4o model. Max size: 8000 tokens.", 8000),
    ("Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192", 8192),
    ("Range of input length should be [1, 30720]", 30720),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 700. This model's maximum context length is 4096 "
        "tokens and your request has 3500 input tokens (700 > 4096 - 3500).",
        4096,
    ),
    (
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9000>= "
        "n_ctx: 4096). Try to load the model with a larger context length",
        4096,
    ),
    ("This endpoint's maximum context length is 32,768 tokens. However, you requested about 40,000 tokens", 32768),
    ("the request exceeds the available context size. try increasing the context size or enable context shift", 0),
    ("Your input exceeds the context window of this model. Please adjust your input and try again.", 0),
    ("Token limit exceeded: 9000 > 8192", 8192),
    ("prompt too long; exceeded max context length by 904 tokens", 0),
    ("exceeded model token limit: 8192 (requested: 9000)", 8192),
    ("The request (9000 tokens) does not fit in the context of 8,192 tokens", 8192), ("Cannot fit prompt", 0),
    ("Cannot fit prompt of 5000 tokens into the window", 0), ("This model supports up to 4096 tokens", 4096),
    ("Input surpasses the model's capacity of 4096 tokens", 4096),
    ("Sequence of 5000 is beyond the model's n_positions (4096)", 4096),
    ("Requested context of 9000 tokens is not possible; 4096 available", 4096), ("KV cache is full", 0),
    ("Please reduce the length of the messages.", 0), ("输入的 token 数超出最大长度限制 8192", 8192), ("上下文长度超过限制", 0),
    ("Das Kontextfenster ist voll: 9000 von 4096 Token", 0), ("El prompt supera el contexto máximo de 4096 tokens", 4096),
    ("コンテキスト長を超えています (9000 > 4096)", 4096), ("No room left in the context: 9000 tokens needed", 0),
    ("Context length exceeded: 5000/4096", 4096), ("9,000 input tokens are over the 8,192 limit", 8192),
])  # fmt: skip
@for_each(("status", "form"), [
    (400, '{"error": {"message": %s}}'),
    (422, '{"error": %s, "error_type": "validation"}'),
    (500, '{"object": "error", "message": %s}'),
])  # fmt: skip
def test_a_full_window_is_known_in_the_words_of_every_server(said: str, window: int, status: int, form: str) -> None:
    error = status_error(URL, "m", status, form % json.dumps(said))
    assert isinstance(error, ContextOverflow)
    assert error.window_tokens == window


def test_a_full_window_is_known_by_its_code_and_its_size_from_a_field() -> None:
    for size, window in (("8192", 8192), ("9" * 5000, 0)):
        error = status_error(URL, "m", 400, '{"error": {"message": "exceeds the context size", "n_ctx": ' + size + "}}")
        assert isinstance(error, ContextOverflow)
        assert error.window_tokens == window
    for code in ("context_length_exceeded", "exceed_context_size_error", "prompt_too_long"):
        body = json.dumps({"error": {"message": "Bad request.", "code": code}})
        assert isinstance(status_error(URL, "m", 400, body), ContextOverflow)


def test_the_field_that_is_meant_and_what_a_gateway_was_told_are_part_of_the_reason() -> None:
    for said, param in (("Unsupported parameter", "top_k"), ("string too long, maximum length 512", "prompt"),
                        ("Invalid 'prompt_cache_key': too long, maximum length 64", "prompt_cache_key")):  # fmt: skip
        error = status_error(URL, "m", 400, json.dumps({"error": {"message": said, "param": param}}))
        assert (error.fault, str(error).count(param)) == (Fault.REJECTED, 1)
    raw = "the prompt of 9000 tokens exceeds the context size of 4096 tokens"
    body = {"error": {"message": "Provider returned error", "metadata": {"raw": raw}}}
    error = status_error(URL, "m", 400, json.dumps(body))
    assert isinstance(error, ContextOverflow)
    assert error.window_tokens == 4096


def test_a_request_that_is_too_large_is_a_full_window_and_money_is_not() -> None:
    for body in ("", "<h1>413 Request Entity Too Large</h1>", '{"error": {"message": "Request too large"}}'):
        assert isinstance(status_error(URL, "m", 413, body, "text/html"), ContextOverflow)
    said = "You requested up to 65536 tokens, but can only afford 1200"
    assert status_error(URL, "m", 402, said).fault is Fault.REJECTED


@for_each("said", [
    "max_tokens must be at least 1",
    "max_tokens is too large: 99999. This model supports at most 4096 completion tokens",
    "top_k: Input should be less than or equal to 1000",
    "tool description: string too long, maximum length 1024",
    "input image exceeds the maximum of 5242880 bytes",
    "prompt processing exceeded 600 s",
    "prompt processing exceeded the timeout",
    "Jinja Exception: Only user, assistant and tool roles are supported, got 120 messages",
    "unexpected token at 1234",
    "model context-32768 not found",
    "temperature must be less than 2",
    "Extra inputs are not permitted: stream_options",
    "tool call arguments must be JSON",
    "out of tools",
    "functions: too many tools, at most 128",
    "seed must be less than 4294967296",
    "Failed to parse input at pos 1204: <tool_call>",
    "Unterminated string at 1234, line 300 in messages",
    "logprobs is only supported with 100 or fewer",
    "The model supports only 1024 images",
    "Unexpected token beyond position 1234, parsed up to 1233",
    "You exceeded your current quota of tokens, please check your plan",
    "top_k must be at most 1000 tokens",
    "You requested up to 65536 tokens, but can only afford 1200",
    "max_tokens is too large: 5000. This model can generate up to 4096 tokens",
])  # fmt: skip
def test_another_limit_is_no_full_window(said: str) -> None:
    assert not isinstance(status_error(URL, "m", 400, json.dumps({"error": {"message": said}})), ContextOverflow)
