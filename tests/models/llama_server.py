"""A llama.cpp server with one slot and `--slot-save-path`, as far as lmtui asks it; it caches what its slot holds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.models.fake_server import FakeServer, Reply, failed, ok
from tests.models.servers.answers import LLAMA_CPP_LIST, LLAMA_CPP_PROPS

ANSWER_TOKENS, BYTES_PER_TOKEN = 5, 10


@dataclass
class LlamaServer(FakeServer):
    """Answers `ok` to every chat; `files` are what it saved, `held` is the text in its slot.

    `save` and `restore` are answers in place of the real ones; `forgets` makes a restored slot useless.
    """

    props: dict[str, Any] = field(default_factory=lambda: {**LLAMA_CPP_PROPS, "total_slots": 1, "build_info": "b1"})
    files: dict[str, str] = field(default_factory=dict)
    held: str = ""
    base_tokens: int = 2_000
    can_save: bool = True
    forgets: bool = False
    save: Reply | str | None = ""
    restore: Reply | str | None = ""

    def __post_init__(self) -> None:
        self.answers |= {
            "/v1/models": ok(LLAMA_CPP_LIST), "/props": lambda _: ok(self.props),
            "/slots": lambda _: ok(
                [{"id": 0, "is_processing": False, **({"n_prompt_tokens": self.tokens} if self.held else {})}]
            ),
            "/slots/0": self._slot, "/v1/chat/completions": self._chat,
        }  # fmt: skip

    @property
    def tokens(self) -> int:
        """Return how many tokens the slot holds."""
        return self._tokens(self.held) + ANSWER_TOKENS - 1

    @property
    def chats(self) -> list[dict[str, Any]]:
        """Return the bodies of the chat requests."""
        return [body for path, body in self.posted if path == "/v1/chat/completions"]

    def acts(self, action: str) -> list[str]:
        """Return the names of the files that were to be saved or restored."""
        wanted = [body["filename"] for path, body in self.posted if parse_qs(urlsplit(path).query).get("action") == [action]]
        return [name for name in wanted if name != "/"]

    def restart(self) -> None:
        """Forget what the slot holds, as a restarted server does."""
        self.held = ""

    def _tokens(self, text: str) -> int:
        return self.base_tokens + len(text) // 4

    def _slot(self, body: dict[str, Any]) -> Reply | None:
        if not self.can_save:
            return failed(501, "This server does not support slots action. Start it with `--slot-save-path`")
        name = body["filename"]
        if "/" in name:
            return failed(400, "Invalid filename")
        is_save = self.posted[-1][0].endswith("save")
        instead = self.save if is_save else self.restore
        if not isinstance(instead, str):
            return instead
        if is_save:
            self.files[name] = self.held
            return ok({"id_slot": 0, "filename": name, "n_saved": self.tokens, "n_written": self.tokens * BYTES_PER_TOKEN})
        if name not in self.files:
            return failed(400, "Unable to restore slot: No available space in KV cache or invalid slot save file")
        self.held = self.files[name]
        return ok({"id_slot": 0, "filename": name, "n_restored": self.tokens, "n_read": self.tokens * BYTES_PER_TOKEN})

    def _chat(self, body: dict[str, Any]) -> Reply:
        text = "\n".join(json.dumps(message) for message in body["messages"])
        cached = 0 if self.forgets or not self.held or not text.startswith(self.held) else self.tokens
        prompt = self._tokens(text)
        self.held = text
        usage = {
            "prompt_tokens": prompt, "completion_tokens": ANSWER_TOKENS,
            "prompt_tokens_details": {"cached_tokens": cached},
        }  # fmt: skip
        chunks = [
            {
                "model": "qwen",
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": None}],
            },
            {"model": "qwen", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"model": "qwen", "choices": [], "usage": usage},
        ]
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return 200, "".join([*lines, "data: [DONE]\n\n"]).encode()
