from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lmtui.core.errors import McpError
from lmtui.core.events import Level, Notice, Outcome
from lmtui.core.messages import Image
from lmtui.core.permissions.rules import GrantScope, Mode
from lmtui.core.servers import NO_KEY, ServedModel, ServerFound
from lmtui.core.sessions import Answer
from lmtui.core.tool_servers import Reach
from lmtui.core.trust import TrustItem
from lmtui.core.workspace import EFFECT_TOOL, EffectKind, EffectPart
from lmtui.plain.console import Console
from lmtui.plain.plain_session import Terminal
from tests.sets import for_each
from tests.tui.fake_servers import WantsKey
from tests.tui.fakes import FakeHost, FakeSession
from tests.tui.scenes_attempts import some_attempts


class Paper(Terminal):
    """A terminal that types what it was given, and keeps what was said; at the end there is no more to read."""

    def __init__(self, *typed: str | type[BaseException]) -> None:
        self.typed = list(typed)
        self.said: list[str] = []
        self.started_with: list[str] = []
        self.unseen: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def read(self, prompt: str, *, is_kept: bool = False, start: str = "", is_secret: bool = False) -> str:
        self.said.append(prompt)
        self.started_with += [start] if start else []
        if not self.typed:
            raise EOFError
        found = self.typed.pop(0)
        if not isinstance(found, str):
            raise found
        self.unseen += [found] if is_secret else []
        return found

    def drop_typed(self) -> None:
        pass


class Asking(FakeSession):
    """A session that asks about one command in every turn, and ends the turn with the answer."""

    def submit(self, text: str, *, typed: str = "", images: Sequence[Image] = ()) -> None:
        super().submit(text, typed=typed, images=images)
        self.ask("a1", "make test", offered_rules=("Shell(make test)", "Shell(make *)"))

    def answer(self, approval_id: str, answer: Answer) -> None:
        super().answer(approval_id, answer)
        self.end_turn()


class Host(FakeHost):
    def __init__(self, *, setup_note: str = "", kind: type[FakeSession] = Asking) -> None:
        super().__init__(setup_note=setup_note, kind=kind)


def talk(*typed: str | type[BaseException], host: FakeHost | None = None, **start: str) -> tuple[Paper, int]:
    paper, shown = Paper(*typed), host or Host()
    code = Console(paper, settle_s=0.0).run(lambda: shown, start.get("session_id", ""), start.get("task", ""))
    assert shown.is_closed
    return paper, code


@for_each(("typed", "answer"), [
    (["y"], Answer(Outcome.ONCE)), (["what?", "y"], Answer(Outcome.ONCE)), (["n"], Answer(Outcome.NO)),
    (["f", "use make check"], Answer(Outcome.NO, feedback="use make check")),
    (["a", "3"], Answer(Outcome.ALWAYS, scope=GrantScope.USER)), (["a", "", "n"], Answer(Outcome.NO)),
    (["a", "9", "y"], Answer(Outcome.ONCE)), (["e", "make lint"], Answer(Outcome.ONCE, edited="make lint")),
    (["e", "", "y"], Answer(Outcome.ONCE)), ([], Answer(Outcome.NO)),
])  # fmt: skip
def test_an_approval_is_answered_with_what_was_typed(typed: Sequence[str], answer: Answer) -> None:
    host = Host()
    paper, code = talk("go", *typed, host=host)
    assert (host.session.answers, code) == ({"a1": answer}, 0)
    assert paper.started_with == ["make test"] * ("e" in typed)


class AskingAboutEffect(Asking):
    """Asks about what a command did."""

    def ask(self, approval_id: str, text: str, **fields: Any) -> None:
        parts = (EffectPart("old", EffectKind.DELETED), EffectPart("a.py", EffectKind.CHANGED, hunks=2))
        super().ask(approval_id, text, tool=EFFECT_TOOL, parts=parts, hunks=3, suggested_rule="")


@pytest.mark.parametrize(("typed", "answer"), [
    (["p", "2"], Answer(Outcome.ONCE, hunks=(1, 2))), (["p", "1-2"], Answer(Outcome.ONCE, hunks=(0, 1, 2))),
    (["p", "3", "n"], Answer(Outcome.NO)), (["p", "", "y"], Answer(Outcome.ONCE, hunks=(1, 2))), (["d"], Answer(Outcome.ONCE)),
])  # fmt: skip
def test_parts_of_an_effect_are_kept_by_number(typed: list[str], answer: Answer) -> None:
    host = Host(kind=AskingAboutEffect)
    paper, _ = talk("go", *typed, host=host)
    assert host.session.answers == {"a1": answer}
    assert ("  1. deletes old" in paper.said) is ("p" in typed)


@pytest.mark.parametrize(("typed", "sent"), [
    (["one", "y"], "one"), (["one\\", "two\\", "three", "y"], "one\ntwo\nthree"),
    (["```", "def f():", "", "    pass\\", "```", "y"], "def f():\n\n    pass\\"),
    (["/usr/bin/python is broken", "y"], "/usr/bin/python is broken"),
])  # fmt: skip
def test_a_text_of_many_lines_is_one_message(typed: list[str], sent: str) -> None:
    host = Host()
    talk(*typed, host=host)
    assert host.session.submitted == [sent]


def test_ctrl_c_at_an_approval_stops_the_turn_and_twice_leaves_with_the_code_of_an_interrupt() -> None:
    host = Host()
    paper, code = talk("go", KeyboardInterrupt, host=host)
    assert host.session.answers == {}
    assert "turn finished: interrupted, 0 ms" in paper.said
    assert code == 0
    assert talk(KeyboardInterrupt, KeyboardInterrupt)[1] == 130
    assert talk(KeyboardInterrupt, "/status", KeyboardInterrupt)[1] == 0


def test_commands_of_the_users_own_go_to_the_session_with_or_without_the_model() -> None:
    host = Host()
    talk("!ls", "!!pwd", "!", host=host)
    assert host.session.waiting.commands == [("ls", True), ("pwd", False)]
    host = Host()
    talk("y", host=host, task="go on")
    assert host.session.submitted == ["go on"]


def test_modes_titles_and_new_sessions() -> None:
    host = Host()
    paper, _ = talk("/mode plan", "/mode odd", "/rename lexer", "/new", "/nonsense", "/quit", "never read", host=host)
    assert next(iter(host.opened.values())).mode is Mode.PLAN
    assert "error: no mode 'odd'; there are manual, normal, auto, try, plan" in paper.said
    assert len(host.opened) == 2
    assert any("no command /nonsense. " in line for line in paper.said)
    assert paper.typed == ["never read"]


def test_the_form_of_calls_is_said_and_set_and_what_a_command_lacks_is_said() -> None:
    host = Host()
    paper, _ = talk("/calls", "/calls native", "/calls xml", host=host)
    assert "calls: text, it writes its calls as text" in paper.said
    assert "calls: native, you set it" in paper.said
    assert any("no form of calls 'xml'" in line for line in paper.said)
    host.extensions.prompts.broken = McpError("/mcp__a__b needs topic", "Type: /mcp__a__b <topic>")
    paper, _ = talk("/mcp__a__b", "/merge", host=host)
    assert "error: /mcp__a__b needs topic. Type: /mcp__a__b <topic>" in paper.said
    assert any("no changes from try mode. To start it, use F5 or /mode try" in line for line in paper.said)


def test_the_first_run_asks_for_a_server_and_the_folder_for_trust() -> None:
    host = Host(setup_note="No model server is chosen yet.")
    host.trust.items = [TrustItem("setting", ".env", "model = x\x1b[2J")]
    paper, _ = talk("2", "yes", host=host)
    assert host.used == ("http://127.0.0.1:11434/v1", "qwen2.5-coder:7b")
    assert host.trust.is_trusted is True
    assert "  setting, .env: model = x␛[2J" in paper.said


def test_the_first_run_asks_for_the_key_of_an_address_and_one_of_its_models() -> None:
    host = Host(setup_note="No model server is chosen yet.")
    host.servers.found = (ServerFound("a server", "http://box:1", (ServedModel("one"), ServedModel("two"))),)
    paper, _ = talk("fix a.py please", "/help", "http://box:1", "sk-9", "2", host=host)
    assert (host.used, host.servers.keys) == (("http://box:1", "two"), {"http://box:1": "sk-9"})
    assert "Type a number, an address or demo. Ctrl+D leaves." in paper.said


def test_the_key_that_a_server_lacks_is_asked_for_unseen() -> None:
    host = Host()
    host.servers = WantsKey(host)
    host.servers.problem = ServerFound("a server", "http://box:1", (), NO_KEY)
    paper, _ = talk("sk-8", "http://box:1", "sk-9", "1", host=host)
    assert host.used == ("http://box:1", "one")
    assert paper.unseen == ["sk-8", "sk-9"]


def test_where_a_server_runs_is_chosen_before_the_yes() -> None:
    host = Host()
    host.trust.items = [TrustItem("MCP server", ".mcp.json", f"{name}: x", server=name) for name in ("a", "b")]
    paper, _ = talk("s", "2", "3", "yes", host=host)
    assert host.extensions.mcp.chosen == [("b", Reach.HOST)]
    assert host.trust.is_trusted is True
    assert paper.said.count("Trust all of this as it is now? [y/N, s to choose where a server runs] ") == 2
    host = Host()
    host.trust.items = [TrustItem("MCP server", ".mcp.json", "a: x", server="a")]
    talk("s", "0", "no", host=host)
    assert (host.extensions.mcp.chosen, host.trust.is_trusted) == ([], False)


PARTS = (
    EffectPart("old.txt", EffectKind.DELETED, "@@ -1 +0,0 @@\n-old\n", 1, 0, 1),
    EffectPart("a.py", EffectKind.CHANGED, "@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n", 2, 2, 2),
)


@for_each(("typed", "done", "said"), [
    (("all",), [None], "merged"), (("each", "no", "yes"), [[1, 2]], "merged"),
    (("each", "no", "no"), [], "nothing was merged; the changes stay in the overlay"),
    (("drop",), ["dropped"], "dropped; your files are unchanged"),
    (("",), [], "nothing was merged; the changes stay in the overlay"),
])  # fmt: skip
def test_a_merge_asks_about_all_or_each_file(typed: tuple[str, ...], done: list[object], said: str) -> None:
    host, session = FakeHost(), FakeSession("s1")
    session.trial.fake_parts = PARTS
    host.opened["s1"] = session
    paper, _ = talk("/merge", *typed, host=host, session_id="s1")
    assert "deletes old.txt  +0 -1" in paper.said
    assert (session.trial.done, said in paper.said) == (done, True)


def test_attempts_are_listed_and_used_without_a_screen_and_discarded_only_by_a_yes() -> None:
    host = Host()
    paper, _ = talk("/attempts 2 repair it", host=host)
    assert host.extensions.attempts.begun == [("repair it", 2, host.session.id)]
    assert "attempt 1: waiting, no change" in paper.said
    host = Host()
    host.extensions.attempts.rows = some_attempts()
    paper, _ = talk("/attempts", "/attempts use 2", host=host)
    assert "Best: attempt 2, all checks pass with the smallest change." in paper.said
    assert "Attempt 2 is in your folder now; /undo reverts it." in paper.said
    for answer, said in (("n", "no changes made"), ("y", "Discarded all attempts.")):
        paper, _ = talk("/attempts discard", answer, host=host)
        assert (said in paper.said, bool(host.extensions.attempts.rows)) == (True, answer == "n")


def test_the_end_says_where_unmerged_changes_are() -> None:
    class Unmerged(FakeSession):
        async def close(self) -> None:
            self.emit(Notice(level=Level.WARNING, text="2 files not merged. To apply the changes: git apply x.patch"))
            await super().close()

    host = FakeHost()
    host.opened["s1"] = Unmerged("s1")
    paper, _ = talk("/quit", host=host, session_id="s1")
    assert paper.said[-1] == "warning: 2 files not merged. To apply the changes: git apply x.patch"
