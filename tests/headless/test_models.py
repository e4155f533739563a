from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from lmtui.app.model_servers import silent_address
from lmtui.command_line import print_json
from lmtui.config import Config
from lmtui.core.servers import LoadState, ServedModel, ServerFound, model_details
from lmtui.headless.listings import as_table

QWEN = ServedModel(
    "qwen", 8192, load=LoadState.LOADED, has_tools=True, has_vision=True, thinks=True, max_window_tokens=32_768,
    size_bytes=4_700_000_000, quantisation="Q4_K_M", slots=1, template="55b2",
)  # fmt: skip
DROPS = ServedModel("a-much-longer-name-of-a-model", load=LoadState.UNLOADED, has_tools=False, drops_tools=True)
SERVERS = (
    ServerFound("Ollama", "http://127.0.0.1:11434", (QWEN, DROPS), can_load=True),
    ServerFound("OpenAI-compatible", "http://h:1", (), "it wants a key"),
)


def test_the_table_has_a_line_for_each_model_with_what_matters() -> None:
    lines = list(as_table(SERVERS))
    assert (lines[0], lines[1].split("  ")[1]) == ("Ollama  http://127.0.0.1:11434", "qwen")
    for word in ("loaded", "window 8,192 of 32,768", "Q4_K_M", "4.7 GB", "tools, vision, thinks"):
        assert word in lines[1]
    assert "not loaded" in lines[2]
    assert "window unknown" in lines[2]
    assert "drops tools" in lines[2]
    assert lines[1].index("window") == lines[2].index("window")
    assert lines[3] == "OpenAI-compatible  http://h:1  (it wants a key)"
    assert "--url" in "\n".join(as_table(()))
    bad = ServerFound("k\x1b[2J", "http://h\x1b[2J", (ServedModel("m\x1b[2J", quantisation="\x1b[2J"),), "n\x1b[2J")
    assert "\x1b" not in "\n".join(as_table((bad,)))


@pytest.mark.parametrize(
    ("url", "silent"),
    [("http://h:2/v1", "http://h:2"), ("http://h:1/v1", ""), ("localhost:11434", ""), ("", "")],
    ids=["nothing there", "found", "another name of it", "none named"],
)
def test_a_named_address_where_nothing_answers_is_named(url: str, silent: str) -> None:
    assert silent_address(Config(url=url), SERVERS) == silent
    first = next(iter(as_table(SERVERS, silent=silent)))
    assert first.startswith(f"nothing answers at {silent};" if silent else "Ollama")


@pytest.mark.parametrize(
    ("saves", "words"), [(True, "saves prompt caches: yes"), (False, "saves prompt caches: no"), (None, "")]
)
def test_a_server_tells_whether_it_saves_prompt_caches(saves: bool | None, words: str) -> None:
    server = replace(SERVERS[0], saves_prompts=saves)
    assert next(iter(as_table((server,)))).partition("11434")[2].strip() == words


def test_json_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([asdict(each) for each in SERVERS])
    first = json.loads(capsys.readouterr().out)[0]
    assert first["can_load"] is True
    assert (first["models"][0]["template"], first["models"][0]["slots"]) == ("55b2", 1)
    assert set(first["models"][0]) == set(ServedModel.__dataclass_fields__)


def test_everything_known_is_told_of_a_model() -> None:
    assert model_details(QWEN)[-1] == "1 request at a time"
    assert "embeds only" in model_details(ServedModel("m", is_embedder=True))
    assert model_details(ServedModel("m", load=LoadState.LOADING))[0] == "loading"
