import fcntl
import importlib
import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core import errors
from lmtui.core.errors import Fault, FilesChangedSince, ProviderError, UsageError
from lmtui.core.events import Outcome
from lmtui.core.messages import Image
from lmtui.core.permissions.rules import GrantScope
from lmtui.core.sessions import Answer, SessionHost, SessionSummary
from lmtui.core.workspace import FileContent
from lmtui.host import connect, rpc
from lmtui.host.connect import token_for
from lmtui.host.host_process import host_lock
from lmtui.host.hub import SessionHub
from lmtui.host.rpc import Member
from tests.sets import for_each


def _ports() -> Iterator[type]:
    """Yield what features offer to front ends."""
    root = Path(__file__).parents[2]
    for path in (root / "lmtui").rglob("*.py"):
        for name in re.findall(r"extensions\.add\((\w+),", path.read_text()):
            yield getattr(importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts)), name)


def _all_members() -> list[Member]:
    found: dict[type, list[Member]] = {}
    todo = [*rpc.ROOTS.values(), *_ports()]
    while todo:
        port = todo.pop()
        if port not in found:
            found[port] = list(rpc.members(port).values())
            todo += [each.returns for each in found[port] if each.returns is not None]
    return [each for members in found.values() for each in members]


@for_each("member", _all_members())
def test_what_a_port_takes_and_returns_can_be_sent(member: Member) -> None:
    for hint in member.parameters.values():
        if rpc.is_function(hint):
            takes, _ = rpc.function_types(hint)
            hints = [] if "kept_back" in member.marks else takes
        else:
            hints = [hint]
        assert all(rpc._adapter(each).core_schema for each in hints)
    if member.returns is None and not rpc.is_function(member.result):
        assert rpc._adapter(member.result).core_schema


def test_what_only_the_process_with_the_sessions_can_do_is_kept_back() -> None:
    kept = {each.full_name for each in _all_members() if "kept_back" in each.marks}
    assert {"SessionHost.start_demo", "SessionHost.close", "SessionHost.serve", "BackgroundCommands.close"} <= kept
    assert all("kept_back" in each.marks for each in _all_members() if each.name == "run_agents_in")


# What a client on the network may do: nothing here may write what is the user's own, or leave the folder and its sandbox.
OPEN_TO_NETWORK = """
SessionHost: setup_note switch_model workspace
Session: answer budget call_form id interrupt is_running mode rename rules set_budget set_mode set_model steer submit wait_idle
Archive: delete find fork look_up sessions
WorkspaceAttempts: again begin discard follow_changes is_running listed review stop task use
Files: changed git_changes git_status list paths paths_note read watch
Extensions: names
PromptSource: read
Jobs: follow_changes is_scheduled known pause read remove resume run_now
ModelServers: choice_problem find known pool
SettingsControls: roles
Trust: answered_elsewhere refused trusted waiting
BackgroundCommands: commands read stop
Changes: apply of_turn plan_redo plan_restore plan_rewind plan_undo steps total
Goals: clear listed pause resume
PlanApprovals: approve grants open reject revise
Trial: drop keep parts problem waiting
Waiting: begin drop go_on make_room
WindowUse: bring_back fold leave_out parts pin read_s
EffectReview: drop keep parts
WorkspaceChecks: cancel listed rules why_nothing
ToolServers: answer_with listen problems resources
McpServers: answer_with listen problems resources servers settle
WorkspaceMemory: waiting
WorkspacePipeline: follow_changes is_running known read stop
PromptFiles: found read
Skills: begin end found in_use listing promoted read_file use
"""


def test_only_these_members_are_open_to_the_network() -> None:
    found: dict[str, set[str]] = {}
    for member in _all_members():
        if member.may_be_called(is_local=False):
            found.setdefault(member.port.__name__, set()).add(member.name)
    named = (line.split(": ") for line in OPEN_TO_NETWORK.strip().splitlines())
    assert found == {port: set(names.split()) for port, names in named}


def _there_and_back(hint: object, value: object) -> object:
    (message,) = rpc.loads(rpc.dumps([{"value": rpc.encode(value)}]))
    return rpc.decode(hint, message["value"])


_TEXTS = st.text(st.characters(codec=None))


@given(
    st.builds(
        Answer,
        st.sampled_from(Outcome),
        _TEXTS,
        st.integers(-1, 9),
        st.sampled_from(GrantScope),
        _TEXTS,
        st.none() | st.lists(st.integers(0, 99)).map(tuple),
    )
)
def test_an_answer_comes_back_as_it_was(answer: Answer) -> None:
    assert _there_and_back(Answer, answer) == answer


@given(st.binary(), st.integers(0), st.text("0123456789abcdef"))
def test_bytes_come_back_as_they_were(data: bytes, size: int, digest: str) -> None:
    content = FileContent(data, size, 0o644, digest)
    assert _there_and_back(FileContent, content) == content
    assert _there_and_back(Image, Image("a.png", "image/png", data)) == Image("a.png", "image/png", data)


def test_times_and_paths_come_back_as_they_were() -> None:
    now = datetime(2026, 11, 24, 9, 30, 0, 123456, tzinfo=UTC)
    row = SessionSummary("a", "A", "done", "m", now, now, 3, "last", wakes=now)
    assert _there_and_back(SessionSummary, row) == row
    assert _there_and_back(Path, Path("/a/\udcff")) == Path("/a/\udcff")


@pytest.mark.parametrize(
    "error",
    [
        UsageError("no", "do this"),
        ProviderError(Fault.BUSY, "busy", "wait", 3.5),
        FilesChangedSince("changed", ("a.txt", "b.txt")),
        errors.ContextOverflow("too long", "", 4096),
        errors.HostError("away"),
    ],
)
def test_an_error_comes_back_as_it_was(error: errors.LmtuiError) -> None:
    back = rpc.decode_error(json.loads(json.dumps(rpc.encode_error(error))))
    assert type(back) is type(error)
    assert (str(back), back.hint, vars(back)) == (str(error), error.hint, vars(error))


def test_an_error_of_a_newer_host_is_still_an_error() -> None:
    back = rpc.decode_error({"class": "NewError", "message": "what", "hint": "how", "own": {"more": 1}})
    assert (type(back), back.full_text()) == (errors.LmtuiError, "what. how")


@for_each("frame", ["", "{", "{}", "[1]", "null", "[" * 100_000, b"\xff", '[{"a": NaN}'])
def test_a_frame_that_is_none_is_refused(frame: str | bytes) -> None:
    with pytest.raises(UsageError):
        _ = rpc.loads(frame)


@given(st.binary() | st.text())
def test_any_frame_is_read_or_refused(frame: str | bytes) -> None:
    try:
        found = rpc.loads(frame)
    except UsageError:
        return
    assert all(isinstance(each, dict) for each in found)


@pytest.mark.parametrize("path", ["__class__", "extensions.__init__", "workspace", "extensions.nothing", "open_session", "."])
def test_only_ports_can_be_reached(path: str) -> None:
    with pytest.raises(UsageError):
        _ = rpc.resolve(SessionHost, path)


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(UsageError, match="outcome"):
        _ = rpc.decode(Answer, {"outcome": "perhaps"})


@pytest.mark.parametrize("sent", [3, [1], None, {"own": {"args": 3, "__class__": 4}}])
def test_a_hostile_error_is_an_error_or_refused(sent: object) -> None:
    if isinstance(sent, dict):
        assert isinstance(rpc.decode_error(sent), errors.LmtuiError)
    else:
        with pytest.raises(UsageError, match="not an object"):
            _ = rpc.decode_error(sent)


@pytest.mark.parametrize("folder", ["\0", "~nobody-of-this-name/a"])
def test_a_folder_that_is_no_path_is_refused(folder: str) -> None:
    with pytest.raises(UsageError):
        _ = SessionHub().allowed(folder)


def test_a_host_starts_while_somebody_looks_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    connect.host_folder().mkdir(parents=True)
    info = connect.host_folder() / "host.json"
    _ = info.write_text('{"pid": 1, "version": "0", "started": ""}')
    with info.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        timer = threading.Timer(0.1, fcntl.flock, (looking, fcntl.LOCK_UN))
        timer.start()
        with host_lock():
            assert connect.running_host() is None  # not process 1, which the last host was
        timer.join()


@pytest.mark.parametrize(("url", "is_sent"), [("http://127.0.0.1:8765", True), ("https://box.example:8765", False)])
def test_only_this_machine_is_sent_its_own_token(
    url: str, is_sent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    connect.host_folder().mkdir(parents=True, mode=0o700)
    token = connect.ensure_token(connect.host_folder())
    if is_sent:
        assert token_for(url, "", {}) == token
    else:
        with pytest.raises(UsageError, match="needs its token"):
            _ = token_for(url, "", {})
