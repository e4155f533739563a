"""The errors that somebody catches.

LmtuiError
├── UsageError            the user asked for something that cannot be: exit code 64
│   └── NotFound          what is named is not there
├── ConfigError           a setting has a value that it cannot have: exit code 64
├── ProviderError         the model server failed; `fault` says how
│   └── ContextOverflow   the request does not fit the window that the server serves
├── WindowFull            the conversation cannot be made to fit the model's window
├── SandboxError          the sandbox refused or broke
│   ├── SandboxUnavailable  no backend can run commands here
│   └── FilesChangedSince   files are not as they were when a change of them was planned
├── ToolError             a tool could not do it; its text goes to the model as the result
├── McpError              an MCP server cannot be started, reached or asked
├── HostError             the host that owns the sessions cannot be reached
├── JobsError             the jobs of a workspace cannot be read or changed
└── SessionFileError      a session log cannot be read, written or is somebody else's
"""

from __future__ import annotations

from enum import StrEnum


def two_sentences(first: str, second: str) -> str:
    """Return two texts as sentences on one line; the first gets its full stop, and alone it stays as it is."""
    first = first.rstrip() if second else first
    return f"{first}{'' if first.endswith(('.', '!', '?', '…')) else '.'} {second}" if second else first


class LmtuiError(Exception):
    """An error to be shown: `str(error)` says what failed and on what, `hint` what the user can do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def full_text(self) -> str:
        """Return the message and its hint as sentences on one line."""
        return two_sentences(str(self), self.hint)


class UsageError(LmtuiError):
    """The command line or a command asks for something that cannot be."""


class NotFound(UsageError):
    """What a client or the user names is not there."""


class ConfigError(LmtuiError):
    """A setting has a value that it cannot have; the message names the setting and where the value came from."""


class Fault(StrEnum):
    """How a model server failed."""

    UNREACHABLE = "unreachable"
    NOT_A_MODEL_SERVER = "not_a_model_server"
    KEY_REFUSED = "key_refused"
    UNKNOWN_MODEL = "unknown_model"
    BUSY = "busy"
    LOADING = "loading"
    SERVER_ERROR = "server_error"
    REJECTED = "rejected"
    NO_TOOLS = "no_tools"
    CUT = "cut"
    GARBAGE = "garbage"
    STREAM_ERROR = "stream_error"
    TIMEOUT = "timeout"
    OVERFLOW = "overflow"


class ProviderError(LmtuiError):
    """A request to the model server failed for good (the retries are over or would not help).

    `retry_after_s` is how long the server asked to wait, 0 where it did not say.
    """

    def __init__(self, fault: Fault, message: str, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint)
        self.fault = fault
        self.retry_after_s = retry_after_s


class ContextOverflow(ProviderError):
    """The request is larger than the window; `window_tokens` is 0 where the server did not say."""

    def __init__(self, message: str, hint: str = "", window_tokens: int = 0) -> None:
        super().__init__(Fault.OVERFLOW, message, hint)
        self.window_tokens = window_tokens


class WindowFull(LmtuiError):
    """The conversation cannot be made to fit the window any more; the text says what fills it and the way out."""


class SandboxError(LmtuiError):
    """The sandbox refused an operation or broke; the text is fit for the model."""


class SandboxUnavailable(SandboxError):
    """No backend can run commands on this machine, or none that was asked for."""


class FilesChangedSince(SandboxError):
    """Files, at most 50 of which are in `paths`, are not as they were when a change of them was planned; it was not made."""

    def __init__(self, message: str, paths: tuple[str, ...]) -> None:
        super().__init__(message)
        self.paths = paths


class ToolError(LmtuiError):
    """A tool could not do what was asked; the text goes to the model."""


class SessionFileError(LmtuiError):
    """A session log is missing, foreign, in use, or cannot be written."""


class McpError(LmtuiError):
    """An MCP server cannot be started, reached or asked; the text says why."""


class HostError(LmtuiError):
    """The host that owns the sessions cannot be reached, or does not answer."""


class ClosedToNetwork(HostError):
    """The host does this only for clients on its own machine."""


class JobsError(LmtuiError):
    """The jobs of a workspace cannot be read or changed, or the job does not exist."""
