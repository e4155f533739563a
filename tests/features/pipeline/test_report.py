"""Reports: what they say of roles, and which of them can be read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lmtui.core.errors import UsageError
from lmtui.core.events import ROOT, TurnStarted, UsageUpdated
from lmtui.core.messages import Usage
from lmtui.core.model_events import ModelLoaded
from lmtui.features.pipeline.report import migrated, read_report, report_json, report_markdown, report_object, usage_by_role
from lmtui.features.pipeline.values import PipelinePlan, PipelineTask, TaskAttempt, TaskSpec
from tests.sets import for_each

PLAN = PipelinePlan("0", "p", "p.md", datetime.now(UTC), (PipelineTask(1, TaskSpec("Do it"), attempts=(TaskAttempt(1),)),))
EVENTS = (
    UsageUpdated(agent="plan", usage=Usage(100, 20)),
    ModelLoaded(model="big", role="planner", unloaded=("small",), elapsed_s=2.5),
    TurnStarted(turn_id="1"), UsageUpdated(agent=ROOT, usage=Usage(1_000, 50, 900)),
    UsageUpdated(agent="fix", usage=Usage(10, 5)), ModelLoaded(model="small", elapsed_s=1.25),
    ModelLoaded(model="big", role="reviewer", ok=False),
    UsageUpdated(agent="review", usage=Usage(7, 3)), UsageUpdated(agent="title", usage=Usage(1, 1)),
)  # fmt: skip


def some_report(**changes: Any) -> dict[str, Any]:
    return report_object(PLAN, [], [], usage=usage_by_role(EVENTS)) | changes


def test_requests_tokens_and_loads_are_counted_by_role() -> None:
    found = usage_by_role(EVENTS)
    names = ("requests", "prompt_tokens", "completion_tokens", "loads", "unloads", "load_s")
    assert {role: tuple(each[name] for name in names) for role, each in found.items()} == {
        "planner": (1, 100, 20, 1, 1, 2.5), "coder": (2, 1_010, 55, 1, 0, 1.2),
        "reviewer": (1, 7, 3, 0, 0, 0), "other": (1, 1, 1, 0, 0, 0),
    }  # fmt: skip


def test_this_version_can_be_read_and_one_of_version_1_becomes_it_with_what_it_lacks_empty() -> None:
    assert read_report(json.dumps(some_report()).encode())["schema_version"] == 2
    earlier = some_report(schema_version=1)
    del earlier["usage"]
    assert read_report(json.dumps(earlier).encode()) == json.loads(json.dumps(earlier))
    assert "| role |" not in report_markdown(earlier)
    current = some_report(usage={})
    del earlier["tasks"][0]["attempts"][0]["summary"]
    found = migrated(read_report(json.dumps(earlier).encode()))
    assert read_report(report_json(found).encode()) == json.loads(json.dumps(current))


@for_each(("changes", "problem"), [
    ({"schema_version": 0}, "schema version 0, not 2"),
    ({"schema_version": 3}, "schema version 3, not 2"), ({"schema_version": 1e999}, "cannot be read: invalid"),
    ({"usage": None}, "cannot be read: 'NoneType'"), ({"tasks": [{}]}, "cannot be read: 'attempts' is missing"),
    ({"tasks": [some_report()["tasks"][0] | {"attempts": ["one"]}]}, "cannot be read: string indices"),
])  # fmt: skip
def test_what_is_wrong_with_others_is_said(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_report(json.dumps(some_report(**changes)).encode())
