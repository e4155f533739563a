from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.connection_profiles import ConnectionProfile, connection_of, find_connection, parse_connections
from lmtui.core.errors import ConfigError
from tests.sets import for_each

GPU = "gpu: url=http://gpu:8080 model=qwen3-coder api_key=file:~/.gpu.key"
LOCAL = "local: model='a model'"


def test_a_profile_names_a_server_a_model_and_where_its_key_is() -> None:
    assert parse_connections([GPU, LOCAL]) == {
        "gpu": ConnectionProfile("gpu", "http://gpu:8080", "qwen3-coder", "file:~/.gpu.key"),
        "local": ConnectionProfile("local", model="a model"),
    }


def test_of_two_with_one_name_the_later_holds() -> None:
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


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no profile 'gqu'") as caught:
        find_connection([GPU, LOCAL], "gqu")
    assert caught.value.hint == "There are: gpu, local."
    with pytest.raises(ConfigError) as caught:
        find_connection([], "gpu")
    assert "has none" in caught.value.hint


def test_a_server_is_found_in_whatever_form_its_address_has() -> None:
    found = connection_of([LOCAL, GPU], "gpu:8080/v1")
    assert found is not None
    assert found.name == "gpu"
    assert connection_of([LOCAL, GPU], "http://gpu:8081") is None


@given(st.text(max_size=60))
def test_any_text_is_a_profile_or_an_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert len(parse_connections([text])) == 1
