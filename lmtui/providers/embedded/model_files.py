"""The GGUF files that other programs have brought to this machine: LM Studio's, Ollama's, the hub's and llama.cpp's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_FILES = 200
_MOST_FOLDERS = 5_000
_MOST_DEPTH = 6
_LEAST_BYTES = 1_000_000
_QUANTISATION = re.compile(r"(?:^|[-._])((?:UD-)?(?:I?Q[2-8](?:_[A-Z0-9]+)*|F16|BF16|F32|MXFP4))(?=$|[-._])", re.IGNORECASE)
_LATER_PART = re.compile(r"-(?!00001)[0-9]{5}-of-[0-9]{5}$")
_MODEL_LAYER = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file: `name` is what is shown, `place` whose folder it is in."""

    name: str
    path: Path
    size_bytes: int
    quantisation: str
    place: str


def find_files(home: Path, environment: Mapping[str, str] = os.environ) -> list[ModelFile]:
    """Return the model files of the usual folders, each once, by name; blocks (disk)."""
    hub = environment.get("HF_HUB_CACHE") or str(Path(environment.get("HF_HOME") or home / ".cache/huggingface") / "hub")
    folders = (
        ("LM Studio", home / ".lmstudio/models"),
        ("LM Studio", home / ".cache/lm-studio/models"),
        ("hub", Path(hub)),
        ("llama.cpp", Path(environment.get("LLAMA_CACHE") or home / ".cache/llama.cpp")),
    )
    ollama = Path(environment.get("OLLAMA_MODELS") or home / ".ollama/models")
    found: dict[Path, ModelFile] = {}
    for file in (*(each for place, folder in folders for each in _below(folder, place)), *_of_ollama(ollama)):
        if len(found) < MOST_FILES:
            found.setdefault(file.path.resolve(), file)
    return sorted(found.values(), key=lambda file: file.name.lower())


def quantisation_of(name: str) -> str:
    """Return the quantisation that a file's name tells, empty where it does not."""
    match = _QUANTISATION.search(name)
    return match[1].upper() if match else ""


def _below(folder: Path, place: str) -> Iterator[ModelFile]:
    for count, (root, folders, names) in enumerate(os.walk(folder)):
        if count >= _MOST_FOLDERS:
            return
        if len(Path(root).relative_to(folder).parts) >= _MOST_DEPTH:
            folders.clear()
        for name in names:
            path = Path(root) / name
            is_model = name.endswith(".gguf") and "mmproj" not in name.lower() and not _LATER_PART.search(path.stem)
            if is_model and (file := _file(path.stem, path, place)) is not None:
                yield file


def _of_ollama(folder: Path) -> Iterator[ModelFile]:
    """Yield Ollama's models: a manifest for each tag names the blob that is the GGUF."""
    manifests = folder / "manifests"
    for root, _, names in os.walk(manifests):
        for tag in names:
            name = f"{Path(root).name}:{tag}"
            digest = _model_digest(Path(root) / tag)
            if digest and (file := _file(name, folder / "blobs" / digest.replace(":", "-"), "Ollama")) is not None:
                yield file


def _model_digest(manifest: Path) -> str:
    try:
        layers = json.loads(manifest.read_bytes())["layers"]
        found = next((each["digest"] for each in layers if each.get("mediaType") == _MODEL_LAYER), "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return found if isinstance(found, str) and re.fullmatch(r"sha256[:-][0-9a-f]{64}", found) else ""


def _file(name: str, path: Path, place: str) -> ModelFile | None:
    try:
        size = path.stat().st_size
    except OSError:
        return None
    return ModelFile(name, path, size, quantisation_of(name), place) if size >= _LEAST_BYTES else None
