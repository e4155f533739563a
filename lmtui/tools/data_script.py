"""Looks into a table without holding it: how many rows, which columns, the first and the last rows.

Runs inside the sandbox by its source, on the standard library alone (Parquet needs pyarrow there); it writes text.
Formats: RFC 4180 and its relatives, JSON, JSON lines, Apache Parquet.
"""

from __future__ import annotations

import collections
import csv
import importlib
import io
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MAX_CELL = 120
PROBLEM = 3  # the exit code where what is wrong with the file was written
_ROW_CHARS, _SHOWN_COLUMNS = 2_000, 40
_SAMPLE_ROWS = 10_000
_SAMPLE_CHARS = 65_536
_MAX_COLUMNS = 200
_MAX_JSON_BYTES = 50_000_000


class Unreadable(Exception):
    """The file is not what its name says; the text says why."""


class Shape(NamedTuple):
    """What is shown of a file; a column is its name, type and how many of the first `sample` rows are empty there."""

    kind: str
    rows: int
    width: int
    columns: list[tuple[str, str, int]]
    sample: int
    head: list[list[str]]
    tail: list[list[str]]


def kind_of(value: object) -> str:
    """Return what a value is, in one word; of text whether it is a number."""
    if not isinstance(value, str):
        return {bool: "bool", int: "int", float: "float", list: "list", dict: "object"}.get(type(value), type(value).__name__)
    text = value.strip()
    if text.lower() in ("true", "false"):
        return "bool"
    for kind, reader in (("int", int), ("float", float)):
        try:
            reader(text)
        except ValueError:
            continue
        return kind
    return "text"


def _joined(kinds: set[str]) -> str:
    if kinds == {"int", "float"}:
        return "float"
    return " or ".join(sorted(kinds)) if len(kinds) < 3 else "mixed"


def look(path: str, rows: int, wanted: list[str]) -> Shape:
    """Return what is to be told of a file, of the `wanted` columns alone where there are some."""
    name = path.lower()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:  # opening a pipe would block
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Unreadable("not a regular file")
        start = file.read(4)
        if start == b"PAR1" or name.endswith((".parquet", ".pq")):
            return parquet(path, rows, wanted)
        file.seek(0)
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
        if name.endswith((".jsonl", ".ndjson", ".json")) or start.lstrip()[:1] in (b"{", b"["):
            return table("JSON", objects(text, path), rows, wanted)
        return table("CSV", records(text), rows, wanted)


def table(kind: str, found: Iterable[dict[str, object]], rows: int, wanted: list[str]) -> Shape:
    """Return the shape of what comes row by row, its columns, its beginning and its end."""
    head, tail = list[dict[str, object]](), collections.deque[dict[str, object]](maxlen=rows)
    types: dict[str, set[str]] = {}
    empty: collections.Counter[str] = collections.Counter()
    count = 0
    for row in found:
        for name, value in row.items() if count < _SAMPLE_ROWS else ():
            is_empty = value is None or value == ""
            types.setdefault(name, set()).update(() if is_empty else (kind_of(value),))
            empty[name] += is_empty
        (head if count < rows else tail).append(row)
        count += 1
    columns = [(name, _joined(kinds), empty[name]) for name, kinds in list(types.items())[:_MAX_COLUMNS]]
    told = chosen(columns, wanted)
    first, last = ([[_cell(row.get(name)) for name, *_ in told] for row in part] for part in (head, tail))
    return Shape(kind, count, len(types), told, min(count, _SAMPLE_ROWS), first, last)


def chosen(columns: list[tuple[str, str, int]], wanted: list[str]) -> list[tuple[str, str, int]]:
    """Return the columns that are asked for, all where none is."""
    missing = [name for name in wanted if name not in [column[0] for column in columns]]
    if missing:
        there = ", ".join(column[0] for column in columns[:40])
        raise Unreadable(f"no column {', '.join(missing)}; there are: {there}")
    return [column for column in columns if column[0] in wanted] if wanted else columns


def records(text: io.TextIOWrapper) -> Iterator[dict[str, object]]:
    """Read rows with a separator; the first is the header, unless it is all numbers."""
    csv.field_size_limit(10_000_000)
    sample = text.read(_SAMPLE_CHARS)
    text.seek(0)
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(sample, ",;\t|")
    except csv.Error:
        dialect = csv.excel
    lines = csv.reader((line.replace("\0", "") for line in text), dialect)
    first = next(lines, None)
    if first is None:
        return
    is_header = not all(kind_of(cell) in ("int", "float") for cell in first)
    names = unique(first if is_header else [f"column {number}" for number in range(1, len(first) + 1)])
    if not is_header:
        yield dict(zip(names, first, strict=False))
    for row in lines:
        if row:
            extra = [f"column {number}" for number in range(len(names) + 1, len(row) + 1)]
            yield dict(zip([*names, *extra], row, strict=False))


def unique(names: list[str]) -> list[str]:
    """Return names with a number behind those that are there already."""
    seen: collections.Counter[str] = collections.Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return found


def objects(text: io.TextIOWrapper, path: str) -> Iterator[dict[str, object]]:
    """Read one JSON value a line, or one list of them."""
    first = ""
    while not first:
        line = text.readline()
        if not line:
            return
        first = line.strip()
    if first.startswith("["):
        if Path(path).stat().st_size > _MAX_JSON_BYTES:
            raise Unreadable(f"one JSON list of more than {_MAX_JSON_BYTES:,} bytes: make JSON lines of it")
        text.seek(0)
        values = parsed(text.read(), 1)
        yield from map(as_row, values if isinstance(values, list) else [values])
        return
    yield as_row(parsed(first, 1))
    for number, line in enumerate(text, 2):
        if line.strip():
            yield as_row(parsed(line, number))


def parsed(text: str, number: int) -> object:
    """Return a JSON value."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"line {number} is not JSON: {error}") from error


def as_row(value: object) -> dict[str, object]:
    """Return a value as a row."""
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else {"value": value}


def parquet(path: str, rows: int, wanted: list[str]) -> Shape:
    """Return shape, columns and the first rows, where pyarrow is there."""
    try:
        reader = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise Unreadable("Parquet needs pyarrow in the project's Python: pip install pyarrow there") from error
    try:
        found = reader.ParquetFile(path)
    except ValueError as error:  # as pyarrow's own errors are
        raise Unreadable(f"it is not a Parquet file, or cut off: {error}") from error
    columns = [(str(field.name), str(field.type), 0) for field in found.schema_arrow]
    few = chosen(columns[:_MAX_COLUMNS], wanted)
    batch = next(found.iter_batches(rows), None)
    head = [[_cell(row.get(name)) for name, *_ in few] for row in (batch.to_pylist() if batch else [])]
    return Shape("Parquet", found.metadata.num_rows, len(columns), few, 0, head, [])


def _cell(value: object) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    line = " ".join(text.split())
    return line if len(line) <= MAX_CELL else f"{line[: MAX_CELL - 1]}…"


def text_of(path: str, found: Shape) -> str:
    """Return what is to be told of a file, in lines."""
    lines = [f"{path}: {found.kind}, {found.rows:,} rows × {found.width:,} columns"]
    among = f" (types and empty cells of the first {found.sample:,} rows)" if found.sample else ""
    lines += [f"columns{among}:"] if found.columns else []
    for name, kind, empty in found.columns:
        lines.append(f"  {_cell(name)}: {kind or 'empty'}" + (f", {empty:,} empty" if empty else ""))
    names = [_cell(name) for name, *_ in found.columns]
    cut = f" (the first {_SHOWN_COLUMNS} columns)" if len(names) > _SHOWN_COLUMNS else ""
    for title, rows in (("first rows", found.head), ("last rows", found.tail)):
        shown = [" | ".join(row[:_SHOWN_COLUMNS])[:_ROW_CHARS] for row in (names, *rows)]
        lines += [f"{title}{cut}:", *shown] if rows else []
    return "\n".join(lines)


def main(path: str, rows: str, wanted: str) -> int:
    """Write what is to be told of a file, or what is wrong with it; return the exit code."""
    try:
        text, code = text_of(path, look(path, int(rows), json.loads(wanted))), 0
    except (Unreadable, csv.Error, RecursionError) as error:
        text, code = str(error), PROBLEM
    except OSError as error:
        text, code = error.strerror or "it cannot be read", PROBLEM
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
