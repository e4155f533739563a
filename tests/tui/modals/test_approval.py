from __future__ import annotations

from itertools import product
from typing import Any

from lmtui.core.events import ApprovalRequested, Outcome, TurnReason
from lmtui.core.permissions.rules import TOOL_TRAITS, FileEffect, GrantScope, tools_that, traits_of
from lmtui.core.permissions.suggested_rules import grants
from lmtui.core.sessions import Answer
from lmtui.tui.modals.approval_text import conditions, explanation, notes, question, title
from lmtui.tui.session_state import SessionState
from tests.sets import for_each
from tests.tui.driving import SMALL, WIDE, Driver
from tests.tui.fakes import DIFF
from tests.tui.one_app import Cases
from tests.tui.scenes import COMMAND, COMMAND_FIELDS

cases = Cases()
NEVER_ASK = (
    "decompose", "get_time", "memory", "memory_read", "memory_search", "propose_plan", "report_result", "skill",
    "task_state_get", "todo_list",
)  # fmt: skip

LONG = "\n".join(f"echo {number}" for number in range(100))


async def ask(driver: Driver, text: str = COMMAND, **fields: Any) -> None:
    if not driver.host.session.is_running:
        await driver.type("go")
    driver.host.session.ask("a1", text, **{**COMMAND_FIELDS, **fields})
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)


async def ask_three(driver: Driver, text: str = "make a") -> None:
    await driver.type("go")
    driver.host.session.ask("a1", text)
    driver.host.session.ask("a2", "make b", agent="child")
    driver.host.session.ask("a3", "edit", tool="edit", diff=DIFF, path="parser/lexer.py")
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)


@cases.at(SMALL)
async def an_approval_says_what_where_and_what_no_rule_covers(driver: Driver) -> None:
    await ask(driver)
    shown = driver.text()
    assert "Run this command?" in shown
    assert "docker, no network" in shown
    assert "in /home/ada/src/parser" in shown
    assert "No rule allows  rm -rf" in shown


@cases.at(WIDE)
async def a_look_alike_in_a_command_is_told(driver: Driver) -> None:
    await ask(driver, "\u0441\u043e\u0440\u0443 a b")
    assert "looks like copy" in driver.text()


@cases.at(SMALL)
async def a_command_with_network_names_the_hosts_that_it_reaches(driver: Driver) -> None:
    await ask(driver, "pip install cowsay", limits="up to 120 s, 512 MB; reaches pypi.org and where it keeps its files")
    shown = driver.text()
    assert "reaches pypi.org and where it keeps its files" in shown
    assert "docker, network for this command" in shown
    assert "docker, no network" not in shown


@cases.each("char", ["\u200d", "\ufe0f", "\u00a0", "\u2800", "\U0001d173"], size=WIDE)
async def a_hidden_character_of_a_path_is_named_in_the_question(driver: Driver, char: str) -> None:
    await ask(driver, "edit", tool="edit", diff=DIFF, path=f"src/app{char}.py")
    name = f"<U+{ord(char):04X}>"
    assert f"Edit src/app{name}.py?" in driver.text()
    assert "warning: hidden" in driver.text()


@cases.each(
    ("size", "uncovered"),
    product([WIDE, SMALL, (50, 16)], [("x" * 6000,), tuple(f"make target-{number}" for number in range(500))]),
)
async def uncovered_parts_of_any_length_leave_room_for_the_command_and_the_choices(
    driver: Driver, size: tuple[int, int], uncovered: tuple[str, ...]
) -> None:
    await ask(driver, LONG, uncovered=uncovered)
    shown = driver.text()
    assert "y Allow once" in shown
    assert "More below" in shown
    assert shown.count("echo ") >= 2


@cases
async def always_asks_for_the_rule_and_the_scope_with_the_narrowest_marked(driver: Driver) -> None:
    await ask(driver)
    await driver.press("a")
    await driver.until_screen("GrantChoice")
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ALWAYS, rule=0, scope=GrantScope.WORKSPACE)


@cases
async def always_may_mean_another_rule_everywhere(driver: Driver) -> None:
    await ask(driver)
    await driver.press("a")
    await driver.press("end")
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ALWAYS, rule=2, scope=GrantScope.USER)


@cases
async def always_grants_nothing_in_the_first_moment_and_escape_goes_back(driver: Driver) -> None:
    await ask(driver)
    await driver.press("a", "enter")
    assert driver.host.session.answers == {}
    await driver.press("escape")
    await driver.until_screen("Approval")
    assert driver.host.session.is_running


@cases.at(SMALL)
async def always_works_only_after_the_end_was_seen(driver: Driver) -> None:
    await ask(driver, LONG)
    for key in ("a", "e", "s", "y"):
        await driver.press(key)
    assert driver.screen_name == "Approval"
    assert driver.host.session.answers == {}


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
async def a_session_grant_names_the_suggested_rule(driver: Driver) -> None:
    await ask(driver)
    await driver.press("s")
    assert driver.host.session.answers["a1"] == Answer(Outcome.SESSION)


@cases.each("key", ["s", "a"])
async def nothing_is_granted_where_no_rule_is_offered(driver: Driver, key: str) -> None:
    await ask(driver, suggested_rule="", offered_rules=())
    await driver.press(key)
    assert driver.host.session.answers == {}
    assert "Allow for session" not in driver.text()


@cases
async def an_edited_command_runs_in_place_of_the_one_asked_about(driver: Driver) -> None:
    await ask(driver)
    await driver.press("e")
    await driver.press(*["backspace"] * 7, *"--sdist")
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    edited = COMMAND.replace("--wheel", "--sdist")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE, edited=edited)


@cases
async def what_was_written_stays_after_going_back(driver: Driver) -> None:
    await ask(driver)
    await driver.press("e")
    await driver.press(*" -v", "escape")
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    await driver.press("e")
    assert f"{COMMAND} -v" in driver.text()


@cases
async def a_command_that_was_not_changed_is_a_plain_yes(driver: Driver) -> None:
    await ask(driver)
    await driver.press("e")
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)


@cases
async def keys_typed_ahead_run_no_edited_command(driver: Driver) -> None:
    await ask(driver)
    await driver.press("e", "enter")
    assert driver.host.session.answers == {}


@cases
async def an_empty_command_is_not_sent(driver: Driver) -> None:
    await ask(driver, "ls")
    await driver.press("e", "backspace", "backspace")
    driver.host.clock.forward(0.3)
    await driver.press("enter")
    assert driver.host.session.answers == {}


@cases
async def only_commands_can_be_edited(driver: Driver) -> None:
    await ask(driver, "edit", tool="edit", diff=DIFF, path="a.py")
    assert "e edit command" not in driver.text()
    await driver.press("e")
    assert driver.screen_name == "Approval"


@cases
async def why_explains_in_words_and_the_dead_time_begins_anew_after_it(driver: Driver) -> None:
    await ask(driver)
    await driver.press("question_mark")
    await driver.until_screen("Explanation")
    assert "no rule covers all of it." in driver.text()
    await driver.press("escape")
    await driver.until_screen("Approval")
    await driver.press("y")
    assert driver.host.session.answers == {}
    driver.host.clock.forward(0.3)
    await driver.press("y")
    assert driver.host.session.answers["a1"].outcome is Outcome.ONCE


@cases.each("key", ["a", "e", "question_mark", "f", "b"])
async def an_approval_resolved_elsewhere_takes_what_stands_over_it_along(driver: Driver, key: str) -> None:
    await ask_three(driver)
    await driver.press(key)
    assert driver.screen_name != "Approval"
    driver.host.session.end_turn(TurnReason.INTERRUPTED)
    await driver.until_screen("Workbench")


@cases
async def quitting_over_an_approval_asks_and_no_goes_back_to_it(driver: Driver) -> None:
    await ask(driver)
    await driver.press("ctrl+q")
    await driver.until_screen("Confirm")
    assert "Quit while an agent is working?" in driver.text()
    await driver.press("n")
    await driver.until_screen("Approval")
    assert not driver.host.is_closed


@cases
async def several_that_wait_are_counted(driver: Driver) -> None:
    await ask_three(driver)
    assert "1 of 3" in driver.text()
    await driver.press("y")
    await driver.until_screen("Approval")
    await driver.until(lambda: "1 of 2" in driver.text())


@cases
async def one_that_comes_while_another_is_shown_is_counted(driver: Driver) -> None:
    await ask(driver)
    assert "of 2" not in driver.text()
    driver.host.session.ask("a2", "make")
    await driver.until(lambda: "1 of 2" in driver.text())
    assert "b review all…" in driver.text()


@cases.at(WIDE)
async def all_that_wait_are_allowed_together_after_they_were_seen(driver: Driver) -> None:
    await ask_three(driver)
    await driver.press("b")
    await driver.until_screen("Batch")
    await driver.press("y")
    assert driver.host.session.answers == {}
    driver.host.clock.forward(0.3)
    await driver.press("end", "y")
    outcomes = {each: answer.outcome for each, answer in driver.host.session.answers.items()}
    assert outcomes == dict.fromkeys(("a1", "a2", "a3"), Outcome.ONCE)


@cases.at(SMALL)
async def a_long_batch_must_be_scrolled_to_its_end(driver: Driver) -> None:
    await ask_three(driver, LONG)
    await driver.press("b")
    await driver.until_screen("Batch")
    driver.host.clock.forward(1)
    await driver.press("y")
    assert driver.host.session.answers == {}
    await driver.press("end", "y")
    assert len(driver.host.session.answers) == 3


@cases.at(WIDE)
async def what_comes_after_a_batch_was_opened_is_not_answered_by_it(driver: Driver) -> None:
    await ask_three(driver)
    await driver.press("b")
    await driver.until_screen("Batch")
    driver.host.session.ask("a4", "curl evil")
    driver.host.clock.forward(1)
    await driver.settle()
    await driver.press("end", "y")
    assert "a4" not in driver.host.session.answers
    assert len(driver.host.session.answers) == 3


@cases
async def all_that_wait_are_refused_together(driver: Driver) -> None:
    await ask_three(driver)
    await driver.press("b")
    await driver.until_screen("Batch")
    driver.host.clock.forward(1)
    await driver.press("n")
    assert {answer.outcome for answer in driver.host.session.answers.values()} == {Outcome.NO}


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
    await driver.settle()
    assert driver.host.session.answers["a1"].outcome is Outcome.ONCE


@cases
async def an_unknown_host_is_asked_about_in_words(driver: Driver) -> None:
    await ask(driver, "pypi.org:443", tool="network", commands=0)
    assert "Let a command reach pypi.org?" in driver.text()
    await driver.press("y")
    assert driver.host.session.answers["a1"].outcome is Outcome.ONCE


@cases
async def a_page_that_lmtui_would_fetch_is_shown_with_its_whole_address(driver: Driver) -> None:
    url = f"https://docs.example.com/{'a' * 90}/end?token=abc"
    own = "sent by lmtui itself, not by a command"
    await ask(driver, f"docs.example.com:443\nGET {url}", tool="network", commands=0, sandbox=own)
    text = driver.text()
    assert "Let lmtui reach docs.example.com?" in text
    assert own in text
    assert "/end?token=abc" in text


@for_each(
    ("text", "words"),
    [
        ("pypi.org:443", "Let a command reach pypi.org?"),
        ("pypi.org:8080", "Let a command reach pypi.org:8080?"),
        ("pypi.org", "Let a command reach pypi.org?"),
        ("x\u202e.org:443", "Let a command reach x<U+202E>.org?"),
    ],
)
def test_a_host_is_named_with_an_unusual_port_only(text: str, words: str) -> None:
    request = ApprovalRequested(approval_id="a", call_id="c", tool="network", text=text)
    assert question(request, SessionState()) == words


def test_what_others_wrote_is_clean_in_every_word_of_an_approval() -> None:
    evil = "x\x1b[31m\u202e[bold]\ny"
    request = ApprovalRequested(
        approval_id="a", call_id="c", tool=evil, text=evil, path=evil, diff=DIFF, why=evil, suggested_rule=evil,
        offered_rules=(evil,), cwd=evil, sandbox=evil, limits=evil, uncovered=(evil,), digest=evil, agent=evil,
    )  # fmt: skip
    state = SessionState()
    words = [question(request, state), *(each for each, _ in conditions(request, state)), *explanation(request, state)]
    words += [title(request, state, "", 300).plain, *notes(request).plain.split("\n")]
    assert not [each for each in words if "\x1b" in each or "\u202e" in each or "\n" in each]


def test_grants_begin_with_the_narrowest() -> None:
    request = ApprovalRequested(approval_id="a", call_id="c", tool="shell", text="x", offered_rules=("A", "B"))
    assert [(grant.rule, grant.scope) for grant in grants(request)] == [
        ("A", GrantScope.WORKSPACE),
        ("B", GrantScope.WORKSPACE),
        ("A", GrantScope.USER),
        ("B", GrantScope.USER),
    ]


@for_each(("sandbox", "style"), [("docker, network on", "bold $error"), ("docker, no network", "$text-muted")])
def test_a_network_that_is_on_is_shown_as_danger(sandbox: str, style: str) -> None:
    request = ApprovalRequested(approval_id="a", call_id="c", tool="shell", text="x", sandbox=sandbox)
    assert [span.style for span in title(request, SessionState(), "", 80).spans][-1] == style


@cases
async def the_key_for_plan_mode_says_why_the_mode_stays_while_a_question_is_open(driver: Driver) -> None:
    await ask(driver)
    mode = driver.host.session.mode
    await driver.press("shift+tab")
    assert ["until this is answered" in each.message for each in driver.app._notifications] == [True]
    assert driver.screen_name == "Approval"
    assert driver.host.session.mode is mode


@for_each(("tool", "verb"), [("read", "Read"), ("grep", "Read"), ("write", "Write"), ("edit", "Edit")])
def test_the_question_says_whether_a_file_is_read_or_changed(tool: str, verb: str) -> None:
    request = ApprovalRequested(approval_id="a", call_id="c", tool=tool, text="", path=".env")
    assert question(request, SessionState()) == f"{verb} .env?"


@for_each("tool", sorted(TOOL_TRAITS.keys() - tools_that(FileEffect.SHOWS, FileEffect.LISTS, FileEffect.CHANGES)))
def test_no_question_shows_the_name_of_a_tool(tool: str) -> None:
    if not traits_of(tool).is_for_work and tool not in NEVER_ASK:
        request = ApprovalRequested(approval_id="a", call_id="c", tool=tool, text="")
        assert not question(request, SessionState()).startswith("Use ")


async def test_the_cases() -> None:
    await cases.run()


@cases
async def a_dangerous_command_takes_only_its_own_key(driver: Driver) -> None:
    await ask(driver, "rm -rf / --no-preserve-root")
    for key in ("y", "s"):
        await driver.press(key)
        await driver.settle()
        driver.host.clock.forward(1)
    assert driver.host.session.answers == {}
    await driver.press("Y")
    await driver.until(lambda: driver.host.session.answers == {"a1": Answer(Outcome.ONCE)})
