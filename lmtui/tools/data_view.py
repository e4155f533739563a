"""A table of data in few words: its shape, its columns, its first and last rows, however large it is."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from importlib import resources

from lmtui.core.errors import ToolError
from lmtui.core.messages import MAX_IMAGE_BYTES, Image, sniff
from lmtui.core.permissions.decide import Access
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.sanitize import sanitize_line
from lmtui.tools.tool import Arguments, Told, Tool, WorkspacePath, always, argument, path_argument

_FORMATS = "JPEG, PNG, GIF and WebP"


class LookArguments(Arguments):
    """What to look at."""

    path: WorkspacePath = path_argument()


async def _look(arguments: LookArguments, context: ToolContext) -> ToolResult:
    path = arguments.path
    if not context.sees:
        raise ToolError("you see no pictures: the model in use is not made for them", "Tell the user so.")
    content = await context.sandbox.read_file(path, MAX_IMAGE_BYTES)
    media_type = sniff(content.data)
    if not media_type:
        raise ToolError(f"{path} is not a picture that can be shown ({_FORMATS} can)", "Use read for text.")
    if content.size_bytes > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{path} has {content.size_bytes:,} bytes; pictures of more than {MAX_IMAGE_BYTES:,} are not sent",
            "Make a smaller copy and look at that.",
        )
    kind = media_type.removeprefix("image/")
    name = path.rpartition("/")[2]
    text = f"The picture {path} ({kind}, {content.size_bytes:,} bytes) is attached."
    return ToolResult(text, f"{kind}, {content.size_bytes:,} bytes", images=(Image(name, media_type, content.data),))


LOOK = Tool(
    name="look",
    description="Look at a picture (JPEG, PNG, GIF, WebP).",
    arguments=LookArguments,
    run=_look,
    access=always(Access.READ),
    subject=lambda arguments: arguments.path,
    title=lambda arguments: arguments.path,
    aliases=("view_image", "read_image", "look_at_image", "vision"),
)


MAX_ROWS = 50
_TIME_S, _MEMORY_MB = 120, 1024
_ROW_CHARS, _SHOWN_COLUMNS = 2_000, 40


class DataViewArguments(Arguments):
    """Which file, how many rows of each end, and which columns."""

    path: WorkspacePath = path_argument()
    rows: int = argument(5, also=("n", "limit", "head"), is_told=False, ge=0)
    columns: tuple[str, ...] = argument((), also=("cols", "select"), is_told=False)


async def _view(arguments: DataViewArguments, context: ToolContext) -> ToolResult:
    rows = min(arguments.rows, MAX_ROWS)
    script = resources.files("lmtui.tools").joinpath("data_script.py").read_text(encoding="utf-8")
    command = shlex.join(
        ("python3", "-I", "-X", "utf8", "-c", script, arguments.path, str(rows), json.dumps(arguments.columns))
    )
    result = await context.sandbox.run_command(command, timeout_s=_TIME_S, memory_mb=_MEMORY_MB)
    if result.is_timed_out:
        raise ToolError(f"{arguments.path} is not read through within {_TIME_S} s", "Use python or shell on a part of it.")
    found = _read(result.output)
    if found is None:
        raise ToolError(f"{arguments.path} could not be looked into (exit code {result.exit_code}): {result.output[:300]}")
    if problem := found.get("problem"):
        raise ToolError(f"{arguments.path}: {sanitize_line(str(problem))}")
    return ToolResult("\n".join(_lines(arguments.path, found)), f"{found.get('rows', 0):,} × {found.get('width', 0)}")


def _read(output: str) -> dict[str, object] | None:
    """Return what the script wrote, None where it is something else."""
    try:
        found, _ = json.JSONDecoder().raw_decode(output)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _lines(path: str, found: dict[str, object]) -> list[str]:
    columns = [each for each in _list(found.get("columns")) if isinstance(each, list) and len(each) == 3]
    names = [sanitize_line(str(name)) for name, _, _ in columns]
    lines = [f"{path}: {found.get('kind')}, {found.get('rows', 0):,} rows × {found.get('width', 0):,} columns"]
    sample = found.get("sample")
    if columns:
        among = f" (types and empty cells of the first {sample:,} rows)" if isinstance(sample, int) and sample else ""
        lines.append(f"columns{among}:")
        lines += [_column(sanitize_line(str(name)), kind, empty) for name, kind, empty in columns]
    head, tail = _list(found.get("head")), _list(found.get("tail"))
    lines += _table("first rows", names, head) + _table("last rows", names, tail)
    if note := found.get("note"):
        lines.append(f"({sanitize_line(str(note))})")
    return lines


def _column(name: str, kind: object, empty: object) -> str:
    return f"  {name}: {sanitize_line(str(kind)) or 'empty'}" + (
        f", {empty:,} empty" if isinstance(empty, int) and empty else ""
    )


def _table(title: str, names: Sequence[str], rows: Sequence[object]) -> list[str]:
    if not rows:
        return []
    cut = f" (the first {_SHOWN_COLUMNS} columns)" if len(names) > _SHOWN_COLUMNS else ""
    shown = [" | ".join(sanitize_line(str(cell)) for cell in _list(row)[:_SHOWN_COLUMNS])[:_ROW_CHARS] for row in rows]
    return [f"{title}{cut}:", " | ".join(names[:_SHOWN_COLUMNS])[:_ROW_CHARS], *shown]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


DATA_VIEW = Tool(
    name="data_view",
    description="Look into a CSV, JSONL or Parquet file.",
    arguments=DataViewArguments,
    run=_view,
    access=always(Access.READ),
    subject=lambda arguments: arguments.path,
    title=lambda arguments: arguments.path,
    aliases=("view_data", "csv_head", "read_csv", "data_head", "dataframe", "table_view"),
    told=Told.SELDOM,
)
