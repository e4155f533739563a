"""How an agent is told what came of its sub-agents' work: one bounded JSON object, or a list of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lmtui.core.children import ChildResult, ReportStatus

_MAX_SUMMARY_CHARS, _MAX_DATA_CHARS, _MAX_ARTIFACTS = 1_200, 2_000, 50


def results_text(results: Sequence[ChildResult]) -> str:
    """Return results as JSON: of a single one the object itself."""
    told = [_told(result) for result in results]
    return json.dumps(told[0] if len(told) == 1 else told, ensure_ascii=False, indent=1)


def _told(result: ChildResult) -> dict[str, object]:
    report = result.report
    told: dict[str, object] = {
        "task_id": result.task_id,
        "success": report.status is ReportStatus.OK,
        "agent_id": result.agent,
        "status": str(report.status),
        "summary": cut(report.summary, _MAX_SUMMARY_CHARS),
        "artifacts": list(report.artifacts[:_MAX_ARTIFACTS]),
        "missing": list(result.missing[:_MAX_ARTIFACTS]),
        "data": cut(report.data, _MAX_DATA_CHARS),
        "error": cut(report.error, _MAX_SUMMARY_CHARS),
    }
    return {name: value for name, value in told.items() if value not in ("", [])}


def cut(text: str, limit_chars: int) -> str:
    """Return a text, the end of a longer one left out and said to be."""
    return text if len(text) <= limit_chars else f"{text[: max(0, limit_chars - 20)]}… (cut)"
