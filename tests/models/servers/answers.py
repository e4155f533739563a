"""What real servers answer, by their documentation (llama.cpp's was taken down from one)."""

from __future__ import annotations

from typing import Any

from tests.models.fake_server import listing

LM_STUDIO_LOADED: dict[str, Any] = {
    "type": "llm", "publisher": "google", "key": "google/gemma-4-26b-a4b",
    "display_name": "Gemma 4 26B A4B", "architecture": "gemma4",
    "quantization": {"name": "Q4_K_M", "bits_per_weight": 4}, "size_bytes": 17_990_911_801,
    "params_string": "26B-A4B",
    "loaded_instances": [
        {"id": "google/gemma-4-26b-a4b", "config": {"context_length": 4096, "parallel": 4, "flash_attention": True}}
    ],
    "max_context_length": 262_144, "format": "gguf",
    "capabilities": {
        "vision": True,
        "trained_for_tool_use": True,
        "reasoning": {"allowed_options": ["off", "on"], "default": "on"},
    },
    "description": None,
}  # fmt: skip
LM_STUDIO_UNLOADED: dict[str, Any] = {
    "type": "llm", "publisher": "qwen", "key": "qwen2.5-coder-7b", "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
    "size_bytes": 4_683_073_536, "loaded_instances": [], "max_context_length": 32_768, "format": "gguf",
    "capabilities": {"vision": False, "trained_for_tool_use": True},
}  # fmt: skip
LM_STUDIO_EMBEDDER: dict[str, Any] = {
    "type": "embedding", "publisher": "gaianet", "key": "text-embedding-nomic-embed-text-v1.5",
    "quantization": {"name": "F16", "bits_per_weight": 16}, "size_bytes": 274_290_560, "loaded_instances": [],
    "max_context_length": 2048, "format": "gguf",
}  # fmt: skip
LM_STUDIO = {"models": [LM_STUDIO_LOADED, LM_STUDIO_UNLOADED, LM_STUDIO_EMBEDDER]}
LM_STUDIO_OLD = listing(
    {"id": "text-embedding-nomic", "type": "embeddings", "state": "loaded", "arch": "nomic-bert"},
    {
        "id": "qwen", "type": "llm", "state": "loaded", "loaded_context_length": 8192, "max_context_length": 131_072,
        "capabilities": ["tool_use"], "quantization": "Q4_K_M", "compatibility_type": "gguf",
    },
    {"id": "gemma", "type": "vlm", "state": "not-loaded", "max_context_length": 32_768, "quantization": "4bit"},
)  # fmt: skip
# An older LM Studio answers 200 to what it does not know.
LM_STUDIO_UNKNOWN = {"error": "Unexpected endpoint or method. (GET /props). Returning 200 anyway"}

OLLAMA_TAGS = {
    "models": [
        {
            "name": "qwen2.5-coder:7b", "model": "qwen2.5-coder:7b", "size": 4_683_087_332,
            "details": {"format": "gguf", "family": "qwen2", "parameter_size": "7.6B", "quantization_level": "Q4_K_M"},
        },
        {"name": "gemma3:4b", "model": "gemma3:4b", "size": 3_338_801_804, "details": {"quantization_level": "Q4_K_M"}},
        {"name": "nomic-embed-text:latest", "size": 274_302_450, "details": {"quantization_level": "F16"}},
    ]
}  # fmt: skip
OLLAMA_RUNNING = {"models": [{"name": "qwen2.5-coder:7b", "size_vram": 5_137_025_024, "context_length": 4096}]}
OLLAMA_SHOWN: dict[str, dict[str, Any]] = {
    "qwen2.5-coder:7b": {
        "template": "{{ .System }}{{ .Tools }}",
        "capabilities": ["completion", "tools", "insert"],
        "model_info": {"general.architecture": "qwen2", "qwen2.context_length": 32_768},
    },
    "gemma3:4b": {
        "template": "{{ .Prompt }}",
        "capabilities": ["completion", "vision"],
        "model_info": {"gemma3.context_length": 131_072},
    },
    "nomic-embed-text:latest": {"capabilities": ["embedding"], "model_info": {"nomic-bert.context_length": 2048}},
}

LLAMA_CPP_MODEL = {
    "id": "qwen", "aliases": ["qwen"], "object": "model",
    "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]}, "owned_by": "llamacpp",
    "meta": {"n_ctx": 8192, "n_ctx_train": 32_768, "n_params": 630_167_424, "size": 485_452_288, "ftype": "Q4_K - Medium"},
}  # fmt: skip
LLAMA_CPP_LIST = {"models": [{"name": "qwen", "capabilities": ["completion"]}], **listing(LLAMA_CPP_MODEL)}
LLAMA_CPP_PROPS: dict[str, Any] = {
    "default_generation_settings": {"params": {"temperature": 0.8}, "n_ctx": 8192}, "total_slots": 2, "model_alias": "qwen",
    "model_ftype": "Q4_K - Medium", "modalities": {"vision": False, "audio": False},
    "chat_template": "{%- if tools %}…{% endif %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "chat_template_caps": {"supports_tools": True, "supports_tool_calls": True}, "is_sleeping": False,
}  # fmt: skip
ROUTER_PROPS = {"role": "router", "default_generation_settings": {"params": {}, "n_ctx": 0}, "model_path": "none"}


def router_item(name: str, status: str, **more: Any) -> dict[str, Any]:
    """Return a model of llama.cpp's router."""
    return {"id": name, "object": "model", "owned_by": "llamacpp", "status": {"value": status, **more}}
