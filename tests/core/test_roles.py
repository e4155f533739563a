from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.connection_profiles import ConnectionProfile, parse_connections
from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.hosts import base_url, is_same_server, root_url
from lmtui.core.roles import ModelRole, RoleModel, parse_roles, unasked_roles, with_role
from tests.sets import for_each


@for_each(("text", "role", "model"), [
    ("planner: qwen3-14b temperature=0.2", ModelRole.PLANNER, RoleModel("qwen3-14b", temperature=0.2)),
    ("vision:qwen2.5-vl:7b", ModelRole.VISION, RoleModel("qwen2.5-vl:7b")),
    ("Coder :  seed=7 top_p=0.9 repeat_penalty=1.1", ModelRole.CODER, RoleModel("", None, 0.9, 7, 1.1)),
    (
        "analyst: a context_length=16384 max_completion=900",
        ModelRole.ANALYST,
        RoleModel("a", context_length=16384, max_completion=900),
    ),
    ("embedder: e", ModelRole.EMBEDDER, RoleModel("e")),
    ("title: org/small@q4 seed=0", ModelRole.TITLE, RoleModel("org/small@q4", seed=0)),
])  # fmt: skip
def test_an_entry_names_a_role_a_model_and_settings_of_its_own(text: str, role: ModelRole, model: RoleModel) -> None:
    assert parse_roles([text]) == {role: model}


def test_a_later_entry_or_another_model_changes_only_what_it_says_and_unasked_roles_are_named() -> None:
    found = parse_roles(["planner: a temperature=0.2 context_length=8192", "planner: b seed=3"])
    assert found == {ModelRole.PLANNER: RoleModel("b", 0.2, seed=3, context_length=8192)}
    texts = ("planner: a temperature=0.2", "title: b", "Planner : context_length=8192")
    assert with_role(texts, ModelRole.PLANNER, "c") == ("title: b", "planner: c temperature=0.2 context_length=8192")
    assert with_role(texts, ModelRole.PLANNER, "") == ("title: b", "planner: temperature=0.2")
    assert with_role(texts, ModelRole.TITLE, "") == (texts[0], texts[2])
    assert with_role((), ModelRole.VISION, "v") == ("vision: v",)
    assert unasked_roles(parse_roles(["planner: a", "pilot: b", "embedder: c"])) == (
        "roles: nothing uses pilot yet; the setting is checked, but has no effect"
    )
    assert not unasked_roles(parse_roles(["planner: a"]))


@for_each(("text", "words", "hint"), [
    ("planner qwen", "has no colon", "planner: NAME"),
    ("boss: qwen", "names no role", "planner, coder, reviewer, pilot, analyst, summariser, title, vision, embedder"),
    ("coder:", "names nothing", "planner: NAME"),
    ("coder: a b", "names two models", "planner: NAME"),
    ("coder: a heat=1", "sets 'heat'", "temperature, top_p, repeat_penalty, seed, context_length, max_completion"),
    ("coder: a temperature=3", "temperature cannot be '3'", "a number from 0 to 2"),
    ("coder: a temperature=nan", "temperature cannot be 'nan'", "a number from 0 to 2"),
    ("coder: a temperature=", "temperature cannot be ''", "a number from 0 to 2"),
    ("coder: a seed=1.5", "seed cannot be '1.5'", "a whole number from 0"),
    ("pilot: a context_length=100", "context_length cannot be '100'", "a whole number from 512"),
    ("title: a max_completion=0", "max_completion cannot be '0'", "a whole number from 1"),
    ("planner: context_length=8192", "without a model", "Name the model"),
    ("coder: a seed=-1", "seed cannot be '-1'", "a whole number from 0"),
])  # fmt: skip
def test_what_cannot_be_read_is_named_with_the_way_out(text: str, words: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse_roles([text])
    assert text in str(caught.value)
    assert hint in caught.value.hint


GPU = "gpu: url=http://gpu:8080 model=qwen3-coder api_key=file:~/.gpu.key"
LOCAL = "local: model='a model'"


def test_a_profile_names_a_server_a_model_and_its_key_and_the_later_of_a_name_holds() -> None:
    assert parse_connections([GPU, LOCAL]) == {
        "gpu": ConnectionProfile("gpu", "http://gpu:8080", "qwen3-coder", "file:~/.gpu.key"),
        "local": ConnectionProfile("local", model="a model"),
    }
    assert parse_connections([GPU, "gpu: model=other"])["gpu"].model == "other"


@for_each("text", [
    "", "gpu", "gpu:", "gpu: qwen", "gpu: url=http://gpu colour=red", "gpu: model=a model=b", "gpu: model='a",
    "gpu: url=ftp://canary", "gpu: url=http://user:canary@gpu", "gpu: url=http://gpu api_key=sk-canary",
    "gpu: api_key=keyring:canary", "sk-canary", "g p u: model=a",
])  # fmt: skip
def test_what_is_no_profile_is_refused_and_no_value_is_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_connections([text])
    assert "canary" not in caught.value.full_text()
    assert "api_key=file:" in caught.value.hint


@given(st.text())
def test_any_text_is_read_or_refused_as_roles_and_as_a_profile(text: str) -> None:
    with suppress(ConfigError):
        assert len(parse_roles([text])) == 1
    with suppress(ConfigError):
        assert len(parse_connections([text])) == 1


@for_each(("address", "expected"), [
    ("http://localhost:1234", "http://localhost:1234/v1"), ("localhost:1234/", "http://localhost:1234/v1"),
    ("http://localhost:1234/v1", "http://localhost:1234/v1"),
    ("http://localhost:1234/v1/chat/completions", "http://localhost:1234/v1"),
    ("https://host/proxy/v1/models", "https://host/proxy/v1"), ("http://[::1]:8080", "http://[::1]:8080/v1"),
    ("http://user:secret@host:1/v1?key=1#x", "http://host:1/v1"),
])  # fmt: skip
def test_forms_of_an_address(address: str, expected: str) -> None:
    assert (base_url(address), root_url(address)) == (expected, expected.removesuffix("/v1"))


@for_each("address", [
    "", "ftp://host", "http://", "http://host:notaport", "file:///etc/passwd", "http://host:0", "http://[::1", "http://[x]",
])  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not a server address"):
        base_url(address)


@for_each(("one", "other", "expected"), [
    ("http://localhost:1234", "http://127.0.0.1:1234/v1/", True), ("http://[::1]:1234/v1", "127.0.0.1:1234", True),
    ("http://0.0.0.0:1234/", "http://localhost:1234/v1/models", True), ("https://host/proxy/v1", "https://host/proxy/", True),
    ("https://host/proxy", "https://host", False), ("http://127.0.0.1:1234", "http://127.0.0.1:1235", False),
    ("http://host:1", "https://host:1", False), ("gguf:", "http://127.0.0.1:1234", False), ("gguf:", "gguf:", True),
    ("", "http://127.0.0.1:1234", False), ("", "", True),
])  # fmt: skip
def test_one_server_has_many_addresses(one: str, other: str, expected: bool) -> None:
    assert is_same_server(one, other) is expected
    assert is_same_server(other, one) is expected
