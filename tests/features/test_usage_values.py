from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lmtui.features.usage.values import (
    LogUsage,
    UsageRange,
    UsageRow,
    UsageSum,
    slot_name,
    usage_json,
    usage_lines,
    usage_report,
)

NOW = datetime(2026, 3, 30, 12, tzinfo=UTC)


def log(number: int, *parts: tuple[datetime, str, UsageSum], folder: str = "/w") -> LogUsage:
    slots = dict[str, UsageSum]()
    for at, model, spent in parts:
        slots[slot_name(at, model)] = slots.get(slot_name(at, model), UsageSum()) + spent
    return LogUsage(f"2026010{number}_000000_abcdef", folder, f"task {number}", slots)


ONE = UsageSum(1, 100, 10, 50, 0, 2.0)


def test_sums_are_by_day_model_folder_and_session_with_the_most_first() -> None:
    yesterday = NOW - timedelta(days=1)
    big = UsageSum(1, 1000, 1, 0, 0, 1.0)
    logs = [log(1, (NOW, "a", ONE), (yesterday, "b", big)), log(2, (NOW, "a", ONE), folder="/v"), log(3)]
    report = usage_report(logs, UsageRange.WEEK, NOW, UTC, ["1 log could not be read"])
    assert [(each.name, each.sum.prompt_tokens) for each in report.tables["day"]] == [("2026-03-29", 1000), ("2026-03-30", 200)]
    assert [(each.name, each.sum) for each in report.tables["model"]] == [("b", big), ("a", ONE + ONE)]
    assert [each.name for each in report.tables["folder"]] == ["/w", "/v"]
    assert report.tables["session"][1] == UsageRow("20260101_000000_abcdef", ONE + big, "task 1", "/w")
    told = json.loads(json.dumps(usage_json(report)))
    spent = {"requests", "prompt_tokens", "completion_tokens", "cached_tokens", "turns", "model_s", "turn_s"}
    assert set(told) == {"range", "first", "last", "total", "days", "models", "folders", "sessions", "problems"}
    assert ((told["range"], told["first"], told["last"]), set(told["total"])) == (("7d", "2026-03-24", "2026-03-30"), spent)
    assert set(told["sessions"][0]) == spent | {"session", "title", "folder"}
    assert [set(told[name][0]) - spent for name in ("days", "models", "folders")] == [{"day"}, {"model"}, {"folder"}]


@given(st.lists(st.tuples(st.integers(0, 3000), st.sampled_from("ab"), st.integers(0, 10**9)), max_size=30))
def test_every_table_adds_up_to_the_total(parts: list[tuple[int, str, int]]) -> None:
    spent = [(NOW - timedelta(hours=hours), model, UsageSum(1, tokens, 1, 0, 1)) for hours, model, tokens in parts]
    logs = [log(number, *spent[number::3], folder=f"/{number % 2}") for number in range(3)]
    for chosen in UsageRange:
        report = usage_report(logs, chosen, NOW, UTC)
        for rows in report.tables.values():
            assert sum((each.sum for each in rows), UsageSum()) == report.total


def test_a_report_in_lines_is_one_table_or_the_beginning_of_all_or_says_what_will_appear() -> None:
    logs = [log(number % 10, (NOW - timedelta(days=number), f"model{number}", ONE)) for number in range(12)]
    report = usage_report(logs, UsageRange.MONTH, NOW, UTC)
    text = "\n".join(usage_lines(report))
    assert text.startswith("The last 30 days: 1.3k tokens: 1.2k prompt (50% cached), 120 completion · 12 requests · 24 s")
    assert "and 2 more: `--by model`" in text
    whole = [*usage_lines(report, "model")]
    assert len(whole) == 2 + 1 + 12
    assert whole[2].split() == ["model", "requests", "prompt", "cached", "completion", "model", "time"]
    assert "Mon 2026-03-30" in text
    assert [*usage_lines(usage_report((), UsageRange.ALL, NOW, UTC))] == [
        "No usage yet. Tokens, requests and time appear here after the first answer of a model."
    ]
    assert [*usage_lines(usage_report((), UsageRange.TODAY, NOW, UTC))] == ["No requests today. `--range all` counts all."]
