from __future__ import annotations

import json
from pathlib import Path

from lmtui.models.embedded.embedded_server import MOST_FILES, find_files
from tests.sets import for_each

MB = 1_000_000
DIGEST = "a" * 64


def put(path: Path, size_bytes: int = 2 * MB) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size_bytes)
    return path


def put_ollama(folder: Path, name: str, tag: str, *, layer: object = None) -> Path:
    manifest = folder / "manifests/registry.ollama.ai/library" / name / tag
    manifest.parent.mkdir(parents=True)
    model = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{DIGEST}"}
    manifest.write_text(json.dumps({"layers": [{"mediaType": "x"}, layer or model]}))
    return put(folder / f"blobs/sha256-{DIGEST}")


def test_the_files_of_every_program_are_found_and_those_that_the_environment_names(tmp_path: Path) -> None:
    put(tmp_path / ".lmstudio/models/qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf")
    put(tmp_path / ".cache/huggingface/hub/models--a--b/snapshots/123/b-IQ3_XXS.gguf")
    put(tmp_path / ".cache/llama.cpp/ggml-org_gemma_gemma-q8_0.gguf")
    put_ollama(tmp_path / ".ollama/models", "qwen2.5-coder", "7b")
    found = {file.name: (file.place, file.quantisation) for file in find_files(tmp_path, {})}
    assert found == {
        "Qwen3-8B-Q4_K_M": ("LM Studio", "Q4_K_M"), "b-IQ3_XXS": ("hub", "IQ3_XXS"),
        "ggml-org_gemma_gemma-q8_0": ("llama.cpp", "Q8_0"), "qwen2.5-coder:7b": ("Ollama", ""),
    }  # fmt: skip
    put(tmp_path / "hub/models--a--b/snapshots/1/one.gguf")
    put(tmp_path / "cache/two.gguf")
    put_ollama(tmp_path / "ollama", "three", "latest")
    environment = {
        "HF_HUB_CACHE": str(tmp_path / "hub"), "LLAMA_CACHE": str(tmp_path / "cache"),
        "OLLAMA_MODELS": str(tmp_path / "ollama"),
    }  # fmt: skip
    assert [file.name for file in find_files(tmp_path / "nobody", environment)] == ["one", "three:latest", "two"]


def test_what_is_no_model_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / ".lmstudio/models/a"
    put(folder / "mmproj-model-f16.gguf")
    put(folder / "small.gguf", 10)
    put(folder / "notes.txt")
    put(folder / "big-00002-of-00003.gguf")
    put(folder / "big-00001-of-00003.gguf")
    (folder / "broken.gguf").symlink_to(tmp_path / "gone")
    assert [file.name for file in find_files(tmp_path, {})] == ["big-00001-of-00003"]
    for number in range(MOST_FILES + 5):
        put(folder / f"m{number}.gguf")
    assert len(find_files(tmp_path, {})) == MOST_FILES


@for_each("layer", [
    {"mediaType": "application/vnd.ollama.image.model", "digest": "../outside"},
    {"mediaType": "application/vnd.ollama.image.model", "digest": 3},
    {"mediaType": "application/vnd.ollama.image.license", "digest": f"sha256:{DIGEST}"},
    "x",
])  # fmt: skip
def test_a_manifest_that_is_wrong_names_no_file(tmp_path: Path, layer: object) -> None:
    put_ollama(tmp_path / ".ollama/models", "m", "1", layer=layer)
    put(tmp_path / ".ollama/models/outside")
    assert find_files(tmp_path, {}) == []
    (tmp_path / ".ollama/models/manifests/registry.ollama.ai/library/m/1").write_text("[" * 100_000)
    assert find_files(tmp_path, {}) == []
