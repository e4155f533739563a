from __future__ import annotations

import json
from pathlib import Path

from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import ModelKey, ModelProfile
from lmtui.store.model_profiles import ProfileStore
from tests.sets import for_each

KEY = ModelKey("http://127.0.0.1:8080/v1", "qwen", "Q4_K_M", "abc")
PROFILE = ModelProfile(ToolCallFormat.TEXT, window_tokens=8192, read_tokens_per_s=60.5, source="exam", note="why")


@for_each("text", ["", "{", "[]", "[" * 50_000, "\x00"])
def test_a_broken_file_is_put_aside_and_the_next_one_written(tmp_path: Path, text: str) -> None:
    file = tmp_path / "models.json"
    file.write_text(text)
    store = ProfileStore(file)
    assert (store.get(KEY), (tmp_path / "models.broken").read_text()) == (ModelProfile(), text)
    store.put(KEY, PROFILE)
    assert ProfileStore(file).get(KEY) == PROFILE


def test_what_was_kept_is_there_for_just_that_model_and_values_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    ProfileStore(tmp_path / "state" / "models.json").put(KEY, PROFILE)
    again = ProfileStore(tmp_path / "state" / "models.json")
    assert (again.get(KEY), again.get(ModelKey(KEY.url, KEY.model, "Q8_0", KEY.template))) == (PROFILE, ModelProfile())
    file = tmp_path / "models.json"
    name = "|".join((KEY.url, KEY.model, KEY.quantisation, KEY.template))
    found = {
        "call_form": "shouting", "edit_form": "whole", "thinks": True, "window_tokens": -1, "read_tokens_per_s": True,
        "note": 7, "token_ratio": 1.2,
    }  # fmt: skip
    file.write_text(json.dumps({name: found, "other": 3}))
    assert ProfileStore(file).get(KEY) == ModelProfile(token_ratio=1.2)


def test_what_another_process_kept_stays_and_what_cannot_be_written_holds_for_this_one(tmp_path: Path) -> None:
    one, other = ProfileStore(tmp_path / "models.json"), ProfileStore(tmp_path / "models.json")
    assert one.get(KEY) == ModelProfile()
    other.put(KEY, PROFILE)
    half = ModelKey(KEY.url, "half\ud800")
    one.put(half, PROFILE)
    kept = ProfileStore(tmp_path / "models.json")
    assert kept.get(KEY) == kept.get(half) == PROFILE
    assert [path.name for path in tmp_path.iterdir()] == ["models.json"]
    (tmp_path / "state").write_text("a file where a folder should be")
    store = ProfileStore(tmp_path / "state" / "models.json")
    store.put(KEY, PROFILE)
    assert store.get(KEY) == PROFILE
