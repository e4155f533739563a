"""What a supervisor may answer, and the output of commands as it is shown.

A supervisor runs next to hostile code, so every field is checked here and nothing is taken on trust.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError

from lmtui.core.errors import SandboxError
from lmtui.core.ports import OutputSink
from lmtui.core.sanitize import last_states, sanitize

_MAX_BYTES = 2**64
_Count = Annotated[int, Field(ge=0, le=_MAX_BYTES)]


def _stays_below(path: str) -> str:
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError("a path that leaves the workspace")
    return path


def _is_inside(path: str) -> str:
    parts = bytes.fromhex(path).split(b"/")
    if b"\0" in bytes.fromhex(path) or (path and any(part in (b"", b".", b"..") or len(part) > 255 for part in parts)):
        raise ValueError("not a path inside the workspace")
    return path


_Path = Annotated[str, Field(max_length=4096), AfterValidator(_stays_below)]
_Line = Annotated[str, Field(max_length=4096)]
# JSON has lists where a tuple is meant; what is in them stays strict.
_Match = Annotated[tuple[_Path, _Count, _Line, bool], Strict(strict=False)]
_HexPath = Annotated[str, Field(max_length=8192, pattern=r"^(?:[0-9a-f]{2})*$"), AfterValidator(_is_inside)]
_Found = Annotated[
    tuple[_HexPath, Literal["git", "gitconfig", "gitfile", "bare", "run", "read"], bool, _Count], Strict(strict=False)
]
_Hidden = Annotated[tuple[_HexPath, bool, bool, _Count], Strict(strict=False)]
_Protected = Annotated[tuple[_HexPath, _Count, _Count], Strict(strict=False)]
_Moved = Annotated[tuple[_Line, _HexPath, _Path], Strict(strict=False)]
_Kind = Literal["none", "folder", "file", "link", "other"]
R = TypeVar("R", bound="Reply")


class Reply(BaseModel):
    """An answer without anything in it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class RunReply(Reply):
    """How a command ended; the data next to it is head and tail of its output.  `skipped` are hooks that git did not run."""

    exit: Annotated[int, Field(ge=0, le=255)]
    reason: Literal["exit", "timeout", "cancelled", "memory", "processes", "killed"]
    clean: bool
    head_bytes: Annotated[int, Field(ge=0, le=65_536)]
    total: _Count
    saved: Annotated[str, Field(max_length=4096)]
    elapsed_ms: _Count
    skipped: Annotated[list[_Line], Field(max_length=20)] = []


class YesReply(Reply):
    """Whether it is so, or was done; data may be next to it."""

    is_so: bool


class CountReply(Reply):
    """How many there were: bytes that a program took, states that were dropped."""

    count: _Count


class ReadReply(Reply):
    """What a file is; the data next to it is its bytes."""

    size: _Count
    mode: Annotated[int, Field(ge=0, le=0o7777)]
    sha256: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{64})?$")]


class ListingReply(Reply):
    """A listing; the data next to it is its records."""

    is_cut: bool


class PathsReply(Reply):
    """Where paths lead, or the files that were found."""

    paths: Annotated[list[_Path], Field(max_length=100_000)]


class GrepReply(Reply):
    """The lines found: path, line number, text, whether it is context."""

    matches: Annotated[list[_Match], Field(max_length=100_000)]


_Tree = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
_Lines = Annotated[int, Field(ge=-1, le=_MAX_BYTES)]
_Patch = Annotated[str, Field(max_length=1_048_576)]
_Change = Annotated[tuple[_Path, Literal["A", "M", "D", "T", "U"], _Lines, _Lines, _Patch], Strict(strict=False)]
_Names = Annotated[list[_Path], Field(max_length=50)]


_Folders = Annotated[list[_Path], Field(max_length=1_000)]


class EffectReply(Reply):
    """What commands did in an overlay: states of the touched paths, and what no state can hold."""

    before: _Tree
    after: _Tree
    special: _Names
    special_total: _Count
    made: _Folders
    emptied: _Folders
    removed: _Folders
    caches: _Count
    renamed: dict[str, str]
    sizes: dict[str, _Count]
    modes: dict[str, _Count]
    late: dict[str, _Count]


class StateReply(Reply):
    """The name of a state."""

    tree: _Tree


class LeftOutReply(Reply):
    """What no state holds."""

    left_out: _Names
    left_out_total: _Count


class SnapshotReply(StateReply, LeftOutReply):
    """A state that was kept, and what it does not hold."""


class ChangesReply(Reply):
    """The difference of two states: path, status, added and removed lines (-1 for binary), patch."""

    files: Annotated[list[_Change], Field(max_length=2000)]
    total: _Count


class RestoredReply(Reply):
    """Which files kept others from being put back; none if it was done.  `begun` were so before."""

    conflicts: _Names
    begun: _Count = 0


class SurveyReply(Reply):
    """What programs outside would obey: path in hex, kind, whether it changed, inode number."""

    found: Annotated[list[_Found], Field(max_length=4000)]
    is_cut: bool


class LayoutReply(Reply):
    """What in a folder is protected (with device and inode) and masked (with whether it is a folder, whether a rule denies it,
    and its inode): paths in hex; and what `.git` is.
    """

    read_only: Annotated[list[_Protected], Field(max_length=100)]
    masked: Annotated[list[_Hidden], Field(max_length=400)]
    is_cut: bool
    git: _Kind
    lmagent: _Kind
    stamp: Annotated[str, Field(max_length=100)]


class MovedReply(Reply):
    """The quarantined paths, of which folder, from (in hex) and to; and why something could not be moved."""

    moved: Annotated[list[_Moved], Field(max_length=4000)]
    problem: _Line


class CompareReply(Reply):
    """Which masked paths can be read, and which protected ones are not the files that they were."""

    visible: Annotated[list[_Path], Field(max_length=400)]
    replaced: Annotated[list[_Path], Field(max_length=400)]


def parse(facts: dict[str, object], shape: type[R]) -> R:
    """Check an answer's fields.

    Raises:
        SandboxError: the supervisor reports an error, or the answer does not have this shape.
    """
    error = facts.get("error")
    if isinstance(error, str):
        raise SandboxError(sanitize(error[:4000])[:4000])
    try:
        return shape.model_validate(facts)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SandboxError(f"the sandbox sent an answer that cannot be: {where}: {first['msg']}") from invalid


_MAX_HELD = 512
# A control sequence that may go on in the next piece, or a carriage return that may be half a line end.
_UNFINISHED = re.compile(
    r"(?:\x1b(?:[ -/]*|\[[0-?]*[ -/]*)|\x9b[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*\x1b?|\r)\Z"
)


class LiveOutput:
    """Turns pieces of bytes into clean text; characters and control sequences may be split between pieces."""

    def __init__(self, sink: OutputSink, clean: Callable[[str], str] = sanitize) -> None:
        self._sink, self._clean = sink, clean
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def __call__(self, data: bytes, skipped_bytes: int) -> None:
        if skipped_bytes:
            self.finish()
            self._sink(f"\n… {skipped_bytes:,} bytes not shown …\n")
        text = self._held + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _MAX_HELD))
        cut = unfinished.start() if unfinished else len(text)
        self._held = text[cut:]
        self._emit(text[:cut])

    def finish(self) -> None:
        """Let out what was held back."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        self._decoder.reset()
        self._emit(text)

    def _emit(self, text: str) -> None:
        if shown := self._clean(text):
            self._sink(shown)


def whole_output(data: bytes, head_bytes: int, total_bytes: int, saved_path: str) -> str:
    """Return a command's output as the model reads it: all of it, or head and tail with what is missing said between."""
    left_out = total_bytes - len(data)
    if left_out <= 0:
        return sanitize(last_states(data.decode("utf-8", "replace")))
    head, tail = (sanitize(last_states(part.decode("utf-8", "replace"))) for part in (data[:head_bytes], data[head_bytes:]))
    more = f"; the first of it is in {sanitize(saved_path)}" if saved_path else ""
    return f"{head}\n… {left_out:,} bytes left out{more} …\n{tail}"
