"""The form of the table of jobs, now and in earlier versions: its columns are the fields of a job, all of them text."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any

from lmtui.core.jobs import JobKind, JobRecord, Lease, Missed
from lmtui.store.job_signing import Signer

VERSION = 3
NAMES = tuple(each.name for each in fields(JobRecord))
INDEX = "CREATE UNIQUE INDEX jobs_source ON jobs (source) WHERE source <> ''"
INSERT = " ".join(("INSERT OR REPLACE INTO jobs VALUES", f"({', '.join('?' * (len(NAMES) + 1))})"))
_ADDED = ({"begun_seq": "0"}, {"tries": "0", "again": ""})
"""The columns that versions 2 and 3 added, and what a row of before has in them."""
_TIMES = ("created", "due", "again", "last_run")
_LISTS = ("allow", "deny")


def _schema(names: Sequence[str]) -> str:
    return f"CREATE TABLE jobs (id TEXT PRIMARY KEY, {', '.join(f'{name} TEXT' for name in names[1:])}, signature TEXT)"


SCHEMA = _schema(NAMES)


def create(database: sqlite3.Connection) -> None:
    """Make the table, within a transaction."""
    database.execute(SCHEMA)
    database.execute(INDEX)
    database.execute(f"PRAGMA user_version={VERSION}")


def is_earlier(shapes: set[str]) -> bool:
    """Tell whether a table was made by an earlier version."""
    return any(shapes == {_schema(names), INDEX} for names, _ in _earlier())


def migrate(database: sqlite3.Connection, shapes: set[str], signer: Signer) -> None:
    """Bring a table of an earlier version to this one, within a transaction; rows of other hands, which were never run, go."""
    names, added = next((names, added) for names, added in _earlier() if shapes == {_schema(names), INDEX})
    rows = [tuple(row) for row in database.execute("SELECT * FROM jobs").fetchall()]
    database.execute("DROP TABLE jobs")
    create(database)
    for *values, signature in rows:
        if isinstance(signature, str) and signer.is_ours(values, signature):
            found = to_row(from_row(added | dict(zip(names, values, strict=True))))
            database.execute(INSERT, (*found, signer.sign(found)))


def _earlier() -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Return the columns of each earlier version, and what was added since."""
    found: list[tuple[tuple[str, ...], dict[str, str]]] = []
    added: dict[str, str] = {}
    for columns in reversed(_ADDED):
        added = added | columns
        found.append((tuple(name for name in NAMES if name not in added), added))
    return found


def to_row(record: JobRecord) -> list[str]:
    """Return a job's columns, all of them text."""
    values: dict[str, Any] = {each: getattr(record, each) for each in NAMES}
    for name in _TIMES:
        values[name] = values[name].astimezone(UTC).isoformat() if values[name] is not None else ""
    for name in _LISTS:
        values[name] = json.dumps(values[name])
    lease = record.lease
    values["lease"] = json.dumps(asdict(lease) | {"until": lease.until.isoformat()}) if lease is not None else ""
    return [str(values[name]) for name in NAMES]


def from_row(row: dict[str, str]) -> JobRecord:
    """Return the job of a row that `to_row` made."""
    times = {name: datetime.fromisoformat(row[name]) if row[name] else None for name in _TIMES}
    lease = json.loads(row["lease"]) if row["lease"] else None
    record = JobRecord(id=row["id"], text=row["text"], title=row["title"], created=times["created"] or datetime.now(UTC))
    return replace(
        record,
        kind=JobKind(row["kind"]),
        schedule=row["schedule"],
        zone=row["zone"],
        due=times["due"],
        is_enabled=row["is_enabled"] == "True",
        session=row["session"],
        mode=row["mode"],
        allow=tuple(json.loads(row["allow"])),
        deny=tuple(json.loads(row["deny"])),
        missed=Missed(row["missed"]),
        runs=int(row["runs"]),
        attempts=int(row["attempts"]),
        tries=int(row["tries"]),
        again=times["again"],
        last_run=times["last_run"],
        last_outcome=row["last_outcome"],
        last_session=row["last_session"],
        begun_session=row["begun_session"],
        begun_seq=int(row["begun_seq"]),
        source=row["source"],
        lease=Lease(**(lease | {"until": datetime.fromisoformat(lease["until"])})) if lease else None,
    )
