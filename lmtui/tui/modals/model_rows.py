"""The rows of the list of models: servers with their state in the pool, and models in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lmtui.core.connection_profiles import PROFILES_URL
from lmtui.core.hosts import is_same_server
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.servers import LoadProgress, PoolRow, ServedModel, ServerFound, abilities, pool_cells, size_text
from lmtui.tui.lines.styled_text import Line, Span, fit, pad
from lmtui.tui.wording import window_text

IN_USE, LOADED, LOADING, UNLOADED = "●", "○", "◐", "·"
BAR_CELLS = 12
_MARK_CELLS = 2
_WINDOW_CELLS, _QUANT_CELLS, _SIZE_CELLS = 10, 10, 8
_LEAST_NAME, _NAME_SHARE, _MOST_NAME = 14, 0.42, 48
_LITTLE_ROOM, _MUCH_ROOM = 56, 84
_BAD = ("drops tools", "no tools", "embeds only")


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A line of the list; without a model, a server."""

    server: ServerFound
    model: ServedModel | None = None
    is_in_use: bool = False
    roles: tuple[str, ...] = ()

    @property
    def id(self) -> tuple[str, str]:
        """Return the key of a model: the address of its server, and its name."""
        return self.server.url, self.model.name if self.model else ""


def list_row(row: ModelRow, width: int, progress: Mapping[tuple[str, str], LoadProgress]) -> Line:
    """Return a server's line or a model's."""
    return server_row(row.server, width) if row.model is None else model_row(row, width, progress.get(row.id))


def server_row(server: ServerFound, width: int) -> Line:
    """Return a server's line: its kind, address, state in the pool, and problem."""
    address = short_address(server.url)
    head = f"{sanitize_line(server.kind)}  "
    row = server.pool
    pool: Line = (
        () if row is None else (("  ● " if row.is_up else "  ○ ", "good" if row.is_up else "bad"), (pool_cells(row), "muted"))
    )
    why = row.problem if row is not None and row.problem else server.note
    note = f"  {sanitize_line(why)}" if why else ""
    room = max(0, width - len(head) - len(address))
    line: list[Span] = [(head, "strong"), (sanitize_line(address), "muted")]
    for text, role in (*pool, (note, "warn")):
        line.append((fit(text, room), role))
        room = max(0, room - len(text))
    return tuple(line)


def with_pool(rows: Sequence[ModelRow], pool: Sequence[PoolRow]) -> list[ModelRow]:
    """Return the rows with the current state of the pool's servers."""
    now = {row.server.url: next((each for each in pool if is_same_server(each.url, row.server.url)), None) for row in rows}
    return [replace(row, server=replace(row.server, pool=now[row.server.url])) for row in rows]


def count_text(rows: Sequence[ModelRow], shown: int) -> str:
    """Return how many models are shown; with a pool, also how many of its servers are up and how busy they are."""
    pool = [row.server.pool for row in rows if row.model is None and row.server.pool is not None]
    if not pool:
        return str(shown)
    up = [each for each in pool if each.is_up]
    busy, slots = sum(each.busy for each in up), sum(each.slots for each in up)
    return f"pool {len(up)} of {len(pool)} up, {busy}/{slots} busy · {pluralize(shown, 'model')}"


def short_address(url: str) -> str:
    """Return an address as a list shows it; the files of this machine have none."""
    if url.endswith(":"):
        return "from your settings" if url == PROFILES_URL else "on this machine"
    return sanitize_line(url.removeprefix("http://").rstrip("/").removesuffix("/v1"))


def columns(width: int) -> tuple[int, int, int]:
    """Return how wide name, quantisation and size are; narrow lists leave out the last two."""
    if width < _LITTLE_ROOM:
        return max(_LEAST_NAME, width - _MARK_CELLS - _WINDOW_CELLS - _SIZE_CELLS), 0, 0
    name = min(_MOST_NAME, max(_LEAST_NAME, int(width * _NAME_SHARE)))
    return name, _QUANT_CELLS if width >= _MUCH_ROOM else 0, _SIZE_CELLS


def head_row(width: int) -> Line:
    """Return the names of the columns."""
    name, quant, size = columns(width)
    own = f"{'quantised':<{quant}}" if quant else ""
    sized = f"{'size':<{size}}" if size else ""
    return ((f"{'':<{_MARK_CELLS}}{'model':<{name}}{'window':<{_WINDOW_CELLS}}{own}{sized}it can", "muted"),)


def model_row(row: ModelRow, width: int, progress: LoadProgress | None = None) -> Line:
    """Return one model in columns, or its loading progress."""
    model = row.model
    assert model is not None
    name_cells, quant_cells, size_cells = columns(width)
    sign, role = _LOADS if model.is_loading or progress else _sign(row, model)
    name = pad(fit(sanitize_line(model.name) or "(its own model)", name_cells - 1), name_cells)
    head: Line = (
        (f"{sign} ", role),
        (name, "strong" if row.is_in_use else ""),
    )
    room = max(0, width - _MARK_CELLS - name_cells)
    if row.server.url == PROFILES_URL:
        return (*head, (fit(sanitize_line(model.instance), room), "muted"))
    if progress is not None:
        text = progress.text.replace(f" {model.name}", "", 1)
        return (*head, (fit(bar(progress.ratio) + sanitize_line(text), room), "accent"))
    quantised = sanitize_line(model.quantisation).replace(" - Medium", "_M")
    quant = pad(fit(quantised, quant_cells - 1), quant_cells) if quant_cells else ""
    size = f"{size_text(model.size_bytes):<{size_cells}}" if size_cells else ""
    window, window_role = _window(model)
    rest = room - _WINDOW_CELLS - quant_cells - size_cells
    return (
        *head,
        (pad(fit(window, _WINDOW_CELLS - 1), _WINDOW_CELLS), window_role),
        (quant + size, "muted"),
        *_able(row, model, rest),
    )


_LOADS: Span = (LOADING, "warn")


def bar(ratio: float) -> str:
    """Return a progress bar, empty if the ratio is unknown."""
    if not 0 <= ratio <= 1:
        return ""
    done = round(ratio * BAR_CELLS)
    return "━" * done + "╌" * (BAR_CELLS - done) + f" {ratio:.0%} "


def _sign(row: ModelRow, model: ServedModel) -> Span:
    if row.is_in_use:
        return IN_USE, "accent"
    if model.is_loaded is None:
        return " ", ""
    return (LOADED, "good") if model.is_loaded else (UNLOADED, "muted")


def _window(model: ServedModel) -> Span:
    if model.window_tokens:
        return window_text(model.window_tokens), ""
    return (f"to {window_text(model.max_window_tokens)}", "muted") if model.max_window_tokens else ("unknown", "muted")


def _able(row: ModelRow, model: ServedModel, room: int) -> list[Span]:
    found: list[Span] = []
    for word in dict.fromkeys((*row.roles, *abilities(model))):
        if len(word) > room:
            break
        found.append((f"{word} ", "accent" if word in row.roles else "warn" if word in _BAD else "muted"))
        room -= len(word) + 1
    return found
