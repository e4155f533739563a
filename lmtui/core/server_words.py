"""What is known of a served model, in words: the same for the list in the app, the first screen and `lmtui models`."""

from __future__ import annotations

from collections.abc import Mapping

from lmtui.core.servers import ServedModel, ServerKind

UNKNOWN_WINDOW = "window unknown"


def window_fix(server: str) -> str:
    """Return how the window is made larger on a kind of server; all of them where the kind is not known."""
    return _WINDOW_FIXES.get(server) or f"Raise the context length: {'; '.join(_WINDOW_FIXES.values())}."


_WINDOW_FIXES: Mapping[str, str] = {
    ServerKind.OLLAMA: "Ollama: set OLLAMA_CONTEXT_LENGTH (or num_ctx in the Modelfile) and start it again",
    ServerKind.LM_STUDIO: "LM Studio: load the model with a larger context length (alt+e, l)",
    ServerKind.LLAMA_CPP: "llama.cpp: start it with a larger -c; with --parallel N each slot gets its Nth part",
    ServerKind.VLLM: "vLLM: start it with a larger --max-model-len",
}


def size_text(size_bytes: int) -> str:
    """Return a file's size in units of a thousand, as model pages give it; empty where it is unknown."""
    if not size_bytes:
        return ""
    billions = size_bytes / 1_000_000_000
    return f"{billions:.1f} GB" if billions >= 1 else f"{size_bytes / 1_000_000:.0f} MB"


def state_text(model: ServedModel) -> str:
    """Return whether a model is loaded; empty where the server does not tell."""
    if model.is_loading:
        return "loading"
    return "" if model.is_loaded is None else "loaded" if model.is_loaded else "not loaded"


def short_facts(model: ServedModel) -> str:
    """Return the facts that matter most, where there is little room: `loaded 8k tools`."""
    most, served = model.max_window_tokens, model.window_tokens
    window = _thousands(served) if served else f"≤{_thousands(most)}" if most else "window?"
    return " ".join([*(["loaded"] if model.is_loaded else []), window, *abilities(model)])


def _thousands(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens:,}"


def window_words(model: ServedModel) -> str:
    """Return the window that is served, and what the model could do where that is more."""
    most = model.max_window_tokens
    if model.window_tokens:
        return f"window {model.window_tokens:,}" + (f" of {most:,}" if most > model.window_tokens else "")
    return f"{UNKNOWN_WINDOW}, up to {most:,}" if most else UNKNOWN_WINDOW


def abilities(model: ServedModel) -> list[str]:
    """Return what a model can do, and what it cannot that an agent needs."""
    if model.is_embedder:
        return ["embeds only"]
    found = ["tools"] if model.has_tools else []
    found += ["drops tools"] if model.drops_tools else ["no tools"] if model.has_tools is False else []
    found += ["vision"] if model.has_vision else []
    return found + (["thinks"] if model.thinks else [])


def model_facts(model: ServedModel) -> list[str]:
    """Return everything that is known of a model, the weightiest first."""
    facts = [state_text(model), window_words(model), *abilities(model), model.quantisation, size_text(model.size_bytes)]
    if model.slots:
        facts.append("1 request at a time" if model.slots == 1 else f"{model.slots} requests at a time")
    return [fact for fact in facts if fact]
