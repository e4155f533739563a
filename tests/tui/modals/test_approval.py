from __future__ import annotations

from typing import Any

from lmtui.core.events import ApprovalRequested, Outcome, TurnReason
from lmtui.core.permissions.rules import GrantScope
from lmtui.core.sessions import Answer
from lmtui.tui.lines.page_view import PageView
from lmtui.tui.modals.approval_text import body_lines, conditions, explanation, notes, question, title
from lmtui.tui.session_state import SessionState, Subagent
from tests.sets import for_each
from tests.tui.driving import SMALL, WIDE, Driver
from tests.tui.fakes import DIFF
from tests.tui.one_app import Cases
from tests.tui.scenes import COMMAND, COMMAND_FIELDS

cases = Cases()

LONG = "\n".join(f"echo {number}" for number in range(100))


async def ask(driver: Driver, text: str = COMMAND, approval_id: str = "a1", **fields: Any) -> None:
    if not driver.host.session.is_running:
        await driver.type("go")
    driver.host.session.ask(approval_id, text, **{**COMMAND_FIELDS, **fields})
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)


def request(tool: str, text: str = "x", **fields: Any) -> ApprovalRequested:
    return ApprovalRequested(approval_id="a", call_id="c", tool=tool, text=text, **fields)


async def ask_three(driver: Driver, text: str = "make a") -> None:
    driver.host.session.begin_turn("go")
    driver.host.session.ask("a1", text)
    driver.host.session.ask("a2", "make b", agent="child")
    driver.host.session.ask("a3", "edit", tool="edit", diff=DIFF, path="parser/lexer.py")
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)


@cases.at(SMALL)
async def an_approval_says_what_where_and_what_no_rule_covers_and_counts_after_a_moment(driver: Driver) -> None:
    await ask(driver)
    shown = driver.text()
    for words in ("Run this command?", "docker, no network", "in /home/ada/src/parser", "No rule allows  rm -rf"):
        assert words in shown
    driver.host.clock.forward(0.29 - 1)
    await driver.press("y", "s", "a")
    assert (driver.screen_name, driver.host.session.answers) == ("Approval", {})
    driver.host.clock.forward(0.01)
    await driver.press("y", to="Workbench")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)


@cases
async def always_asks_for_the_rule_and_the_scope_with_the_narrowest_marked(driver: Driver) -> None:
    await ask(driver)
    await driver.press("a")
    assert "Always allow what?" in driver.text()
    await driver.press("enter")
    assert driver.host.session.answers == {}
    await driver.press("escape")
    assert (driver.host.session.is_running, "y Allow once" in driver.text()) == (True, True)
    driver.host.clock.forward(1)
    await driver.press("a")
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ALWAYS, rule=0, scope=GrantScope.WORKSPACE)
    await ask(driver, approval_id="a2")
    await driver.press("a", "end")
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert driver.host.session.answers["a2"] == Answer(Outcome.ALWAYS, rule=2, scope=GrantScope.USER)


@cases.at((50, 16))
async def the_keys_that_allow_read_on_to_the_end_of_a_long_command_and_one_that_fits_is_allowed_at_once(driver: Driver) -> None:
    await ask(driver, LONG, uncovered=("x" * 6000, *(f"make target-{number}" for number in range(500))))
    shown = driver.text()
    assert ("y Read on" in shown, "more lines" in shown, shown.count("echo ") >= 2) == (True, True, True)
    for key in ("a", "e", "s", "enter", "y"):
        top = driver.app.screen.query_one(PageView).scroll_offset.y
        await driver.press(key)
        assert driver.app.screen.query_one(PageView).scroll_offset.y > top, key
    assert driver.host.session.answers == {}
    await driver.press("end")
    assert "y Allow once" in driver.text()
    await driver.press("y")
    assert driver.host.session.answers["a1"].outcome is Outcome.ONCE
    await ask(driver, "echo 1\necho 2", "a2")
    await driver.press("s")
    assert driver.host.session.answers["a2"] == Answer(Outcome.SESSION)


@cases
async def a_call_without_arguments_is_answered_like_any_other(driver: Driver) -> None:
    await ask(driver, "", tool="git_status")
    await driver.press("x", "backspace", to="Approval")
    await driver.wake()
    await driver.press("y", to="Workbench")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)


@cases
async def a_hidden_character_of_a_rule_is_named_before_it_is_granted_as_it_is(driver: Driver) -> None:
    rule = "Shell(ls \u202egpj.exe)"
    await ask(driver, "ls", offered_rules=(rule,))
    await driver.press("a")
    assert "<U+202E>gpj.exe" in driver.text()
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ALWAYS)


@cases
async def nothing_is_granted_where_no_rule_is_offered_and_a_reason_is_no_answer_by_its_letters(driver: Driver) -> None:
    await ask(driver, suggested_rule="", offered_rules=())
    await driver.press("s", "a")
    assert "Allow for session" not in driver.text()
    await driver.press("f", *"yes, as make")
    assert driver.host.session.answers == {}
    await driver.press("enter")
    assert driver.host.session.answers["a1"] == Answer(Outcome.NO, feedback="yes, as make")


@cases
async def what_is_written_into_a_command_stays_runs_in_its_place_and_unchanged_is_a_plain_yes(driver: Driver) -> None:
    await ask(driver)
    await driver.press("e", "enter")
    assert driver.host.session.answers == {}
    await driver.press(*" -v", "escape", to="Approval")
    driver.host.clock.forward(1)
    await driver.press("e")
    assert f"{COMMAND} -v" in driver.text()
    await driver.press(*["backspace"] * 3)
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)
    await ask(driver, "ls", "a2")
    await driver.press("e", "backspace", "backspace")
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert "a2" not in driver.host.session.answers
    await driver.press(*"pwd", "enter")
    assert driver.host.session.answers["a2"] == Answer(Outcome.ONCE, edited="pwd")


@cases
async def why_explains_in_words_in_the_place_of_the_answers_and_the_dead_time_begins_again_after_it(driver: Driver) -> None:
    await ask(driver)
    await driver.press("question_mark")
    shown = driver.text()
    for words in ("Mode normal asks before commands.", "until this session ends", "e edit command", "Alt+Z full screen"):
        assert words in shown
    assert ("y Allow once" in shown, "SHA" in shown, " MB" in shown) == (False, False, False)
    await driver.press("escape", "y")
    assert driver.host.session.answers == {}
    driver.host.clock.forward(0.3)
    await driver.press("y")
    assert driver.host.session.answers["a1"].outcome is Outcome.ONCE


@cases
async def a_question_resolved_elsewhere_takes_what_is_over_it_along(driver: Driver) -> None:
    await ask_three(driver)
    await driver.press("r", to="Batch")
    driver.host.session.end_turn(TurnReason.INTERRUPTED)
    await driver.until_screen("Workbench")


@cases.at(WIDE)
async def all_that_waited_are_allowed_together_after_they_were_seen_and_nothing_that_came_since(driver: Driver) -> None:
    await ask_three(driver, LONG)
    await driver.press("r", to="Batch")
    await driver.press("y")
    driver.host.session.ask("a4", "curl evil")
    driver.host.clock.forward(0.3)
    await driver.settle()
    await driver.press("y")
    assert driver.host.session.answers == {}
    await driver.press("end")
    driver.host.clock.forward(0.3)
    await driver.press("y")
    assert driver.host.session.answers == dict.fromkeys(("a1", "a2", "a3"), Answer(Outcome.ONCE))


@cases.at(SMALL)
async def a_choice_is_under_the_mouse_too_and_not_in_the_first_moment(driver: Driver) -> None:
    await driver.type("go")
    driver.host.session.ask("a1", "make")
    await driver.until_screen("Approval")
    lines = driver.text().splitlines()
    row = next(row for row, line in enumerate(lines) if "y Allow once" in line)
    await driver.pilot.click(offset=(lines[row].index("Allow once"), row))
    assert driver.host.session.answers == {}
    driver.host.clock.forward(1)
    await driver.pilot.click(offset=(lines[row].index("Allow once"), row))
    assert driver.host.session.answers["a1"].outcome is Outcome.ONCE


@for_each(("text", "words"), [
    ("a.org:443", "a command reach a.org?"), ("a.org:8080", "a command reach a.org:8080?"),
    ("a.org", "a command reach a.org?"), ("x\u202e.org:443", "a command reach x<U+202E>.org?"),
    ("docs.example.com:443\nGET https://docs.example.com/a", "lmtui reach docs.example.com?"),
])  # fmt: skip
def test_a_host_is_named_with_an_unusual_port_only_never_with_no_network(text: str, words: str) -> None:
    asked = request("network", text, sandbox="docker, no network")
    shown = title(asked, SessionState(), "", 300).plain
    assert (shown.partition("?")[0] + "?", "no network" in shown) == (f"Let {words}", False)


@for_each(("tool", "text", "words"), [
    ("git_add", "git add .\n\nM  a.py\n?? b.py", "Stage 2 files?"), ("git_commit", "git commit\n\nFix it", "Commit?"),
    ("mcp__crm__find_person", 'mcp__crm__find_person\n{"name": "Ada"}', "Use find_person of crm?"),
])  # fmt: skip
def test_no_tool_is_asked_about_by_its_internal_name(tool: str, text: str, words: str) -> None:
    asked = request(tool, text)
    assert question(asked, SessionState()) == words
    assert "mcp__" not in str(body_lines(asked, 80))
    assert body_lines(request(tool, ""), 80) == []


def test_hidden_and_look_alike_characters_and_what_a_command_reaches_are_told() -> None:
    for char in "\u200d\ufe0f\u00a0\u2800\U0001d173":
        asked = request("edit", path=f"src/app{char}.py", diff=DIFF)
        assert question(asked, SessionState()) == f"Edit src/app<U+{ord(char):04X}>.py?"
        assert "warning: hidden" in notes(asked).plain
    assert "looks like copy" in notes(request("shell", "\u0441\u043e\u0440\u0443 a b")).plain
    assert notes(request("shell", why="it names .env", uncovered=("cat .env",))).plain == "It names .env"
    assert "·  in the background" in notes(request("shell", limits="in the background until …")).plain
    state = SessionState()
    state.work.agents.by_id["agent_1"] = Subagent("agent_1", "root", "")
    assert question(request("shell", agent="agent_1"), state) == "agent 1: run this command?"
    asked = request("shell", sandbox="docker, no network", limits="up to 120 s, 512 MB; reaches pypi.org and its mirrors")
    shown = title(asked, SessionState(), "", 300).plain
    assert "docker, network for this command · up to 120 s; reaches pypi.org and its mirrors" in shown
    for sandbox, style in (("docker, network on", "bold $error"), ("docker, no network", "$text-muted")):
        asked = request("shell", sandbox=sandbox)
        assert [span.style for span in title(asked, SessionState(), "", 80).spans][-1] == style


def test_what_others_wrote_is_clean_in_every_word_of_an_approval() -> None:
    evil = "x\x1b[31m\u202e[bold]\ny"
    asked = request(
        evil, evil, path=evil, diff=DIFF, why=evil, suggested_rule=evil, offered_rules=(evil,), cwd=evil, sandbox=evil,
        limits=evil, uncovered=(evil,), digest=evil, agent=evil,
    )  # fmt: skip
    state = SessionState()
    words = [question(asked, state), *(each for each, _ in conditions(asked, state)), *explanation(asked, state)]
    words += [title(asked, state, "", 300).plain, *notes(asked).plain.split("\n")]
    assert not [each for each in words if "\x1b" in each or "\u202e" in each or "\n" in each]


@cases.at((40, 12))
async def a_dangerous_command_takes_its_own_key_only_after_its_reasons(driver: Driver) -> None:
    await ask(driver, "rm -rf ~/stuff /etc/foo && rm -rf / && sudo mkfs.ext4 /dev/sda")
    assert "overwrites a disk" not in driver.text()
    await driver.press("y", "s")
    assert "overwrites a disk" not in driver.text()
    await driver.press("Y")
    assert (driver.host.session.answers, "overwrites a disk" in driver.text()) == ({}, True)
    driver.host.clock.forward(1)
    await driver.press("e")
    driver.host.clock.forward(1)
    await driver.press("enter", to="Approval")
    driver.host.clock.forward(1)
    await driver.press("e", "x")
    driver.host.clock.forward(1)
    await driver.press("enter")
    for _ in range(2):  # to read on, and to allow what was edited, which is as dangerous
        driver.host.clock.forward(1)
        assert driver.host.session.answers == {}
        await driver.press("Y")
    await driver.until(lambda: driver.host.session.answers["a1"].edited.endswith("/dev/sdax"))
