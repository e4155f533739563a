from __future__ import annotations

from pathlib import Path

from lmtui.models.embedded.embedded_server import MOST_FILES, find_files

MB = 1_000_000


def put(path: Path, size_bytes: int = 2 * MB) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size_bytes)
    return path


def test_the_files_of_every_program_are_found_and_those_that_the_environment_names(tmp_path: Path) -> None:
    put(tmp_path / ".lmstudio/models/qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf")
    put(tmp_path / ".cache/huggingface/hub/models--a--b/snapshots/123/b-IQ3_XXS.gguf", 3 * MB)
    put(tmp_path / ".cache/llama.cpp/ggml-org_gemma_gemma-q8_0.gguf")
    put(tmp_path / ".cache/llama.cpp/b-IQ3_XXS.gguf")
    put(tmp_path / "disk/pub/model/linked.gguf")
    (tmp_path / ".lmstudio/models/linked").symlink_to(tmp_path / "disk")
    found = find_files(tmp_path, {})
    assert [*found] == ["b-IQ3_XXS", "ggml-org_gemma_gemma-q8_0", "linked", "Qwen3-8B-Q4_K_M"]
    assert found["b-IQ3_XXS"] == (tmp_path / ".cache/huggingface/hub/models--a--b/snapshots/123/b-IQ3_XXS.gguf", 3 * MB)
    put(tmp_path / "hub/models--a--b/snapshots/1/one.gguf")
    put(tmp_path / "cache/two.gguf")
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub"), "LLAMA_CACHE": str(tmp_path / "cache")}
    assert [*find_files(tmp_path / "nobody", environment)] == ["one", "two"]


def test_what_is_no_model_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / ".lmstudio/models/a"
    put(folder / "small.gguf", 10)
    for name in ("mmproj-f16.gguf", "notes.txt", "big-00002-of-00003.gguf", "big-00001-of-00003.gguf"):
        put(folder / name)
    (folder / "broken.gguf").symlink_to(tmp_path / "gone")
    assert [*find_files(tmp_path, {})] == ["big-00001-of-00003"]
    for number in range(MOST_FILES + 5):
        put(folder / f"m{number}.gguf")
    assert len(find_files(tmp_path, {})) == MOST_FILES
