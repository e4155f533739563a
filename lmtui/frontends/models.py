"""`lmtui models`: which servers answer, and what each of their models is, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from lmtui.core.clean import clean_line
from lmtui.core.server_words import abilities, size_text, state_text, window_words
from lmtui.core.servers import ServedModel, ServerFound

NOTHING = (
    "no model server answers on the usual ports (LM Studio 1234, Ollama 11434, llama.cpp 8080, vLLM 8000)",
    "Start one, or name another with --url; `lmtui demo` needs none.",
)
_LEAST_NAME = 20


def as_json(servers: Sequence[ServerFound]) -> str:
    """Return every field of what was found."""
    return json.dumps([asdict(server) for server in servers], indent=2, ensure_ascii=False)


def as_table(servers: Sequence[ServerFound], *, silent: str = "") -> Iterator[str]:
    """Yield the lines of a table, a server's own line above its models; nothing answers at `silent`."""
    if silent:
        yield f"nothing answers at {clean_line(silent)}; check the address and the port"
    rows = [_cells(model) for server in servers for model in server.models]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(5)]
    for server in servers:
        note = f"  ({clean_line(server.note)})" if server.note else ""
        yield f"{clean_line(server.kind)}  {clean_line(server.url)}{note}"
        for model in server.models:
            cells = [cell.ljust(width) for cell, width in zip(_cells(model), widths, strict=True)]
            yield f"  {'  '.join(cell for cell in cells if cell)}  {', '.join(abilities(model))}".rstrip()
    if not servers:
        yield from NOTHING


def _cells(model: ServedModel) -> tuple[str, ...]:
    name = clean_line(model.name).ljust(_LEAST_NAME)
    return name, state_text(model), window_words(model), clean_line(model.quantisation), size_text(model.size_bytes)
