from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import Access, Decision, Effect, Mode, Rule, Verdict, parse_rule
from tests.sets import for_each

CORPUS = Path(__file__).parent / "corpus"
BYPASSES = [json.loads(line) for line in (CORPUS / "approval_bypasses.jsonl").read_text().splitlines()]
MOST_ASKED_NEEDLESSLY = 0.02


def lines(name: str) -> list[str]:
    return [line for line in (CORPUS / name).read_text().splitlines() if line and not line.startswith("# ")]


@lru_cache(maxsize=1)
def usual_rules() -> tuple[Rule, ...]:
    return tuple(parse_rule(text, Effect.ALLOW, "settings") for text in lines("rules.txt"))


def decided(command: str, rules: tuple[Rule, ...], mode: Mode = Mode.NORMAL) -> Decision:
    return decide("shell", Access.EXECUTE, command, mode, rules, is_read_only=True)


@for_each("case", BYPASSES)
def test_a_bypass_asks_or_runs_where_it_can_change_nothing(case: dict[str, str | list[str]]) -> None:
    rules = tuple(parse_rule(f"Shell({text})", Effect.ALLOW, "settings") for text in case["allow"])
    found = decided(str(case["command"]), rules)
    assert found.verdict is Verdict.ASK or found.is_read_only
    assert decided(str(case["command"]), rules, Mode.MANUAL).verdict is Verdict.ASK
    assert decide("shell", Access.EXECUTE, str(case["command"]), Mode.NORMAL, rules).verdict is Verdict.ASK


def test_there_are_enough_cases() -> None:
    assert len(BYPASSES) >= 600
    assert len(lines("ordinary_commands.txt")) >= 500


def test_ordinary_commands_are_hardly_asked_about() -> None:
    commands = lines("ordinary_commands.txt")
    asked = [command for command in commands if decided(command, usual_rules()).verdict is not Verdict.ALLOW]
    assert len(asked) <= MOST_ASKED_NEEDLESSLY * len(commands), asked


def test_commands_that_change_nothing_are_hardly_asked_about_without_any_rule() -> None:
    commands = lines("harmless_commands.txt")
    assert len(commands) >= 185
    assert len([command for command in commands if decided(command, ()).verdict is not Verdict.ALLOW]) <= 4
    assert all(decided(command, ()).is_read_only for command in commands if decided(command, ()).verdict is Verdict.ALLOW)


@for_each("command", lines("asked_commands.txt"))
def test_what_deserves_a_question_asks_where_it_would_run_on_the_files(command: str) -> None:
    assert decide("shell", Access.EXECUTE, command, Mode.NORMAL, usual_rules()).verdict is Verdict.ASK


@for_each("command", lines("ordinary_commands.txt"))
def test_without_rules_manual_mode_asks_about_every_command(command: str) -> None:
    assert decided(command, (), Mode.MANUAL).verdict is Verdict.ASK
