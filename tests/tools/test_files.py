from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lmtui.core.errors import LmtuiError, SandboxError, ToolError
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import Verdict
from lmtui.core.plan import Plan, StepWork
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.workspace import ExecResult
from lmtui.tools.registry import ToolRegistry
from tests.fakes import FakeSandbox
from tests.sets import for_each

REGISTRY = ToolRegistry("/home/me/project")
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class Bench:
    def __init__(self, **files: bytes) -> None:
        self.sandbox = FakeSandbox({name.replace("__", "."): data for name, data in files.items()})
        self.plan = Plan()
        self.step_work = StepWork()
        self.shown: list[str] = []

    def _set(self, plan: Plan) -> None:
        self.plan = plan

    def context(self) -> ToolContext:
        return ToolContext(
            self.sandbox, self.plan, self._set, self.shown.append, lambda: NOW, step_work=self.step_work,
            on_reading=lambda path: Verdict.ASK if is_secret_path(path) else Verdict.ALLOW,
        )  # fmt: skip

    async def call(self, tool: str, /, **arguments: object) -> ToolResult:
        return await REGISTRY.prepare(tool, json.dumps(arguments)).run(self.context())


async def test_read_numbers_lines_as_editors_and_grep_do_and_tells_the_total() -> None:
    bench = Bench(a="".join(f"line {n}\n" for n in range(1, 11)).encode())
    whole = await bench.call("read", path="a")
    assert whole.text.splitlines()[0] == "    1  line 1"
    assert "of 10" not in whole.text
    part = await bench.call("read", path="a", offset=3, limit=2)
    assert part.text == "    3  line 3\n    4  line 4\n(lines 3–4 of 10)"
    tail = await bench.call("read", path="a", offset=-2)
    assert tail.text == "    9  line 9\n   10  line 10\n(lines 9–10 of 10)"
    past = await bench.call("read", path="a", offset=15)
    assert past.text == "   10  line 10\n(a has 10 lines; line 15 is past its end)"
    with pytest.raises(ToolError, match="end_line 2 is before line 3"):
        await bench.call("read", path="a", offset=3, end_line=2)
    coloured = await Bench(a=b"\x1b[31mred\x1b[0m\x07\n").call("read", path="a")
    assert not {"\x1b", "\x07"} & {*coloured.text}
    bench = Bench(a="one\x0c\nt\u2028wo\x85\r\nthree\rfour".encode())
    numbers = [line[:5] for line in (await bench.call("read", path="a", offset=3)).text.split("\n")]
    assert numbers == ["    3", "    4", "(line"]


@for_each(("tool", "given", "note"), [
    ("read", {"path": "a", "limit": 99999}, "[limit was 99999, which is out of range; 5000 was used]"),
    ("read", {"path": "a", "limit": "-1"}, "[limit was -1, which is out of range; 400 was used]"),
    ("ls", {"max_depth": 9}, "[depth was 9, which is out of range; 6 was used]"),
    ("grep", {"pattern": "x", "context": 21}, "[context was 21, which is out of range; 20 was used]"),
])  # fmt: skip
async def test_a_number_out_of_range_is_brought_into_it_and_said(tool: str, given: dict[str, object], note: str) -> None:
    result = await Bench(a=b"x\n").call(tool, **given)
    assert result.ok
    assert result.text.endswith(f"\n{note}")


async def test_a_path_that_does_not_exist_names_what_may_be_read_in_its_place() -> None:
    bench = Bench(Notes__txt=b"x\n", greet__py=b"x\n")
    for tool, more in (("read", {}), ("edit", {"search": "x", "replace": "y"})):
        with pytest.raises(SandboxError) as raised:
            await bench.call(tool, path="docs/notes.txt", **more)
        assert raised.value.full_text() == "docs/notes.txt does not exist. Did you mean Notes.txt?"
    with pytest.raises(SandboxError) as raised:
        await bench.call("read", path="greeting.py")
    assert raised.value.full_text() == "greeting.py does not exist. This folder has: greet.py, Notes.txt."
    bench = Bench(hidden__txt=b"x\n")
    context = replace(bench.context(), on_reading=lambda _: Verdict.DENY)
    with pytest.raises(SandboxError) as raised:
        await REGISTRY.prepare("read", '{"path": "a/hidden.txt"}').run(context)
    assert raised.value.full_text() == "a/hidden.txt does not exist"


@for_each(("tool", "given", "count"), [
    ("read", {"path": "a"}, "(2 lines, 3 words, 12 bytes)"), ("read", {"path": "a", "offset": 2}, "(lines 2–2 of 2)"),
    ("ls", {}, "(2 files, 0 folders)"), ("glob", {"pattern": "*"}, "(2 files)"),
    ("grep", {"pattern": "one"}, "(3 matching lines in 2 files)"),
])  # fmt: skip
async def test_a_model_that_would_count_wrong_is_told_the_counts(tool: str, given: dict[str, object], count: str) -> None:
    bench = Bench(a=b"one\ntwo one\n", b=b"one\n")
    call = REGISTRY.prepare(tool, json.dumps(given))
    assert (await call.run(replace(bench.context(), faults=lambda _path, _data: ""))).text.endswith(f"\n{count}")
    assert (count in (await call.run(bench.context())).text) is count.startswith("(lines")


async def test_write_is_terse_and_tells_the_change() -> None:
    bench = Bench(a=b"old\n")
    result = await bench.call("write", path="a", content="new\nlines\n")
    assert (result.text, result.summary, bench.sandbox.files["a"]) == ("ok", "+2 −1", b"new\nlines\n")
    again = await bench.call("write", path="a", content="new\nlines\n")
    assert (again.text, again.changes) == ("ok, unchanged", ())
    await bench.call("write", path="empty", content="")
    assert bench.sandbox.files["empty"] == b""
    call = REGISTRY.prepare("write", '{"path": "b", "content": ""}')
    assert (await call.preview(bench.context())).text == "create b: empty file"
    preview = await REGISTRY.prepare("write", json.dumps({"path": "a", "content": "y\n"})).preview(bench.context())
    assert ("-new" in preview.diff, "+y" in preview.diff, bench.sandbox.files["a"]) == (True, True, b"new\nlines\n")
    with pytest.raises(ToolError, match="mode is wrong"):
        await bench.call("write", path="a", content="x", mode="prepend")


@for_each(("before", "after"), [
    (b"\xef\xbb\xbfa = 1\r\nb = 2\r\n", b"\xef\xbb\xbfa = 1\r\nb = 3\r\n"),
    ("ä\nb = 2".encode("latin-1"), "ä\nb = 3".encode("latin-1")), ("b = 2\n".encode("utf-16"), "b = 3\n".encode("utf-16")),
    (b"\tb = 2\n\n\n", b"\tb = 3\n\n\n"),
])  # fmt: skip
async def test_edit_keeps_encoding_line_ends_and_tabs(before: bytes, after: bytes) -> None:
    bench = Bench(a=before)
    result = await bench.call("edit", path="a", search="b = 2", replace="b = 3")
    assert (bench.sandbox.files["a"], result.text) == (after, "ok")


async def test_shell_tells_how_a_command_ended() -> None:
    bench = Bench()
    bench.sandbox.commands = {
        "good": ExecResult(0, "out\n", 4, 5), "silent": ExecResult(0, "", 0, 5),
        "bad": ExecResult(2, "err\n", 4, 5),
        "slow": ExecResult(124, "half\n", 5, 3000, is_timed_out=True),
        "long": ExecResult(0, "head … tail", 9_999_999, 5, saved_path="/tmp/out-1"),
    }  # fmt: skip
    assert (await bench.call("shell", command="good")).text == "out"
    assert (await bench.call("shell", command="silent")).text == "(no output)"
    bad = await bench.call("shell", command="bad")
    assert bad.text == "err\n(exit code 2)"
    assert not bad.ok
    assert "stopped after 3 s" in (await bench.call("shell", command="slow")).text
    assert "/tmp/out-1" in (await bench.call("shell", command="long")).text


async def test_git_gets_names_paths_and_messages_as_they_are_and_checked() -> None:
    bench = Bench()
    for name in ("-f", "a;b", "a..b", "/x", "a.lock", "x" * 300, "@{u}"):
        with pytest.raises(LmtuiError, match="not a branch name"):
            await bench.call("git_branch", name=name, create=True)
    assert bench.sandbox.ran == []
    await bench.call("git_branch", name="feature/x-1", create=True)
    assert bench.sandbox.ran == ["git switch --no-guess --create feature/x-1"]
    bench = Bench()
    await bench.call("git_add", paths=["--all", "."])
    await bench.call("git_commit", message="$(rm -rf /) ../x")
    assert bench.sandbox.ran[0] == "git add -- --all ."
    assert "--message=$(rm -rf /) ../x" in bench.sandbox.ran[1]


async def test_what_would_be_staged_is_shown_before_it_is() -> None:
    bench = Bench()
    bench.sandbox.commands["git status"] = ExecResult(0, " M a.py\n?? b.py\n", 0, 1)
    preview = await REGISTRY.prepare("git_add", '{"paths": ["."]}').preview(bench.context())
    assert preview.text == "git add .\n\n M a.py\n?? b.py"


async def test_grep_has_modes_and_leaves_out_what_is_forbidden_and_secrets_that_were_not_named() -> None:
    bench = Bench(a=b"one\ntwo one\n", b=b"one\n")
    assert (await bench.call("grep", pattern="one")).text == "a\n    1: one\n    2: two one\nb\n    1: one"
    assert (await bench.call("grep", pattern="one", mode="files")).text == "a\nb"
    assert (await bench.call("grep", pattern="one", mode="count")).text == "a: 2\nb: 1"
    assert (await bench.call("grep", pattern="none")).text == "no matches in all text files"
    assert (await bench.call("grep", pattern="none", path="a", glob="*.c")).text == "no matches in a (*.c only)"
    bench = Bench(a=b"key one\n", __env=b"key two\n", id_rsa=b"key three\n")
    shown = (await bench.call("grep", pattern="key")).text
    assert shown == "a\n    1: key one\n(2 files with matches left out: secrets, or forbidden; read asks)"
    assert (await bench.call("grep", pattern="two", glob=".env")).text.startswith(
        "no matches in all text files (.env only)\n(1 file with matches"
    )
    assert "key two" in (await bench.call("grep", pattern="two", path=".env")).text
    context = replace(bench.context(), on_reading=lambda path: Verdict.DENY if path == "a" else Verdict.ALLOW)
    forbidden = await REGISTRY.prepare("grep", '{"pattern": "key"}').run(context)
    assert ("key one" in forbidden.text, "key three" in forbidden.text, "1 file with matches left out" in forbidden.text) == (
        False, True, True,
    )  # fmt: skip


@for_each(("given", "shown"), [
    ({"start_line": 3, "end_line": 4}, ["3", "4"]), ({"end_line": 2}, ["1", "2"]),
    ({"offset": -2, "end_line": 9}, ["9"]), ({"offset": 8, "endLine": 99}, ["8", "9", "10"]),
    ({"offset": 2, "limit": 2, "end_line": 9}, ["2", "3"]), ({"offset": 2, "limit": 9, "end_line": 3}, ["2", "3"]),
])  # fmt: skip
async def test_read_ends_at_the_line_that_is_given(given: dict[str, object], shown: list[str]) -> None:
    bench = Bench(a="".join(f"line {n}\n" for n in range(1, 11)).encode())
    result = await bench.call("read", path="a", **given)
    assert [line.split()[0] for line in result.text.splitlines()[:-1]] == shown


@for_each("how", [{"mode": "append"}, {"mode": "a"}, {"append": True}, {"write_mode": "append"}])
async def test_write_appends_where_it_is_told_to(how: dict[str, object]) -> None:
    bench = Bench(a=b"one\n", c="ä\n".encode("latin-1"))
    assert (await bench.call("write", path="a", content="two\n", **how)).summary == "+1 −0"
    await bench.call("write", path="b", content="new\n", **how)
    await bench.call("write", path="c", content="ö\n", **how)
    assert bench.sandbox.files == {"a": b"one\ntwo\n", "b": b"new\n", "c": "ä\nö\n".encode("latin-1")}


async def test_what_is_no_text_is_neither_read_nor_appended_to() -> None:
    with pytest.raises(ToolError, match="image/png of 12 bytes"):
        await Bench(a__png=b"\x89PNG\r\n\x1a\n\0\0\0\0").call("read", path="a.png")
    bench = Bench(a=b"\x7fELF\0\0\0\0")
    with pytest.raises(ToolError, match="an ELF program of 8 bytes"):
        await bench.call("read", path="a")
    with pytest.raises(ToolError, match="could not append to a"):
        await bench.call("write", path="a", content="x", mode="append")
    assert bench.sandbox.touched == []


@for_each(("old", "content", "new"), [
    (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"), (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n"),
    (b"a\rb\r", "a\nx\n", b"a\rx\r"), ("ä\n".encode("utf-16"), "ö\n", "ö\n".encode("utf-16")),
    ("ä\n".encode("latin-1"), "ö\n", "ö\n".encode("latin-1")),
    (b"a\r\nb\nc\n", "a\nB\nc\nd", b"a\r\nB\nc\nd\n"), (b"a\nb", "a\nx\n", b"a\nx"), (b"a\nb", "b\na\n", b"b\na"),
    (b"a\nb", "a\nb\n", b"a\nb\n"), (b"10%\r20%\na\n", "10%\r20%\nb\n", b"10%\r20%\nb\n"),
    (b"a\r\n", "", b""), (b"", "a\r\n", b"a\r\n"),
])  # fmt: skip
async def test_write_keeps_the_form_of_the_file(old: bytes, content: str, new: bytes) -> None:
    bench = Bench(a=old)
    context = replace(bench.context(), knows=lambda _: True)
    await REGISTRY.prepare("write", json.dumps({"path": "a", "content": content})).run(context)
    assert bench.sandbox.files["a"] == new


@for_each(("old", "content", "remark"), [
    (b"a\rb\r", "a\nx\n", ""), (b"a\rb", "a\nx\n", " (its last line ends as before)"), (b"a\r\nb\r\n", "x\ny\n", ""),
    (b"a\r\nb\nc\r\n", "a\nB\nc\n", " (its line ends are mixed: lines that stay keep theirs, others end in '\\r\\n')"),
    (b"a\r\nb\nc\r\n", "a\r\nb\r\nc\r\n",
     ", unchanged (its line ends are mixed: lines that stay keep theirs, others end in '\\r\\n')"),
])  # fmt: skip
async def test_write_says_where_line_ends_are_not_as_they_were_given(old: bytes, content: str, remark: str) -> None:
    context = replace(Bench(a=old).context(), knows=lambda _: True)
    result = await REGISTRY.prepare("write", json.dumps({"path": "a", "content": content})).run(context)
    assert result.text == f"ok{remark}"


async def test_an_append_keeps_line_ends_and_is_refused_where_the_file_changed_or_cannot_hold_it() -> None:
    bench = Bench(a=b"a\r\n", b=b"\xe4\n")
    await bench.call("write", path="a", content="b\n", append=True)
    with pytest.raises(ToolError, match="cannot hold '→'; nothing was changed"):
        await REGISTRY.prepare("write", '{"path": "b", "content": "→"}').run(replace(bench.context(), knows=lambda _: True))
    assert bench.sandbox.files == {"a": b"a\r\nb\r\n", "b": b"\xe4\n"}
    bench = Bench(a=b"one\n")
    context = bench.context()
    call = REGISTRY.prepare("write", '{"path": "a", "content": "two\\n", "mode": "append"}')
    preview = await call.preview(context)
    assert preview.text.startswith("append to a  +1 −0")
    bench.sandbox.files["a"] = b"other\n"
    with pytest.raises(LmtuiError, match="has changed"):
        await call.run(context)
    assert bench.sandbox.files["a"] == b"other\n"
