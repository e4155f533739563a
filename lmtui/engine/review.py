"""A review of a turn's changes by the model of the role `reviewer`: one answer, read as findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lmtui.core.errors import SandboxError
from lmtui.core.lenient_json import objects_in
from lmtui.core.project_checks import Finding, ReviewWritten, Severity
from lmtui.core.roles import ModelRole, RoleModel
from lmtui.core.workspace import FileChange
from lmtui.engine.agent import Agent
from lmtui.engine.model_roles import role_request
from lmtui.engine.usage import answer_outside

MOST_ROUNDS = 2
_MOST_DIFF_CHARS = 24_000
_MOST_FINDINGS = 20
_MAX_TOKENS = 4_000
_SYSTEM = (
    "You review a change of code. You see the task and the difference, and nothing else. Report only what is wrong: bugs, "
    "missing cases, things the task asks for that are not there, lost data, security. Do not report style. Answer with JSON: "
    '{"verdict": "APPROVED" or "REJECTED", "findings": [{"severity": "critical", "major" or "minor", "file": "…", "line": 1, '
    '"message": "…"}], "summary": "…"}'
)
_TOLD = "A reviewer found this in your change:\n{findings}\nRepair what is right in it, then say what you did."


def wants_review(agent: Agent) -> bool:
    """Tell whether a model is named for reviews, and the turn changed something that was not reviewed twice."""
    named = agent.model.roles.get(ModelRole.REVIEWER, RoleModel()).model
    return bool(named) and bool(agent.state.verification.touched) and agent.turn.checking.reviews < MOST_ROUNDS


async def review(agent: Agent) -> str:
    """Have the turn's changes reviewed; return what the model is told, empty if the findings are only notes."""
    tracker = agent.state.verification
    if agent.turn.checking.reviewed == tracker.version:
        return ""
    agent.turn.checking.reviewed = tracker.version
    agent.turn.checking.reviews += 1
    diff = await _diff(agent)
    answer = await _ask(agent, diff) if diff else None
    if answer is None:
        return ""
    written = read_review(answer)
    agent.emit(written)
    blocking = [each for each in written.findings if each.severity is not Severity.MINOR]
    if not agent.services.features.checks.review_decides or not blocking or not written.is_rejected:
        return ""
    return _TOLD.format(findings="\n".join(map(str, blocking)))


async def _diff(agent: Agent) -> str:
    """Return the difference between the state before the turn's first change and now."""
    base, checkpoints = agent.state.verification.base, agent.services.checkpoints
    if not base or checkpoints is None:
        return ""
    try:
        now = await checkpoints.snapshot()
        changes: Sequence[FileChange] = await checkpoints.changes(base, now.id, is_now=True)
    except SandboxError:
        return ""
    return "\n".join(change.diff or f"{change.kind} {change.path}" for change in changes)[:_MOST_DIFF_CHARS]


async def _ask(agent: Agent, diff: str) -> str | None:
    text = f"The task:\n{agent.conversation.last_task}\n\nThe difference:\n{diff}"
    return await answer_outside(agent, "review", role_request(agent, ModelRole.REVIEWER, _SYSTEM, text, _MAX_TOKENS))


def read_review(answer: str) -> ReviewWritten:
    """Read an answer: JSON as it is, in a fence or inside prose; prose alone is a review without findings.

    REJECTED without a finding that is critical or major counts as approved: there is nothing to repair.
    """
    text = answer.rpartition("</think>")[2]
    found = next((each for each in objects_in(text, "verdict") if isinstance(each, Mapping) and "verdict" in each), None)
    if found is None:
        return ReviewWritten(summary=text.strip()[:500])
    given = found.get("findings")
    findings = tuple(filter(None, map(_finding, given if isinstance(given, list) else ())))[:_MOST_FINDINGS]
    is_rejected = str(found.get("verdict", "")).strip().upper().startswith("REJECT")
    has_blocking = any(each.severity is not Severity.MINOR for each in findings)
    return ReviewWritten(
        findings=findings, is_rejected=is_rejected and has_blocking, summary=str(found.get("summary", "")).strip()[:500]
    )


def _finding(given: object) -> Finding | None:
    if not isinstance(given, Mapping):
        return None
    message = str(given.get("message") or given.get("fix_hint") or "").strip()
    severity = str(given.get("severity", "")).strip().lower()
    line = given.get("line")
    if not message:
        return None
    return Finding(
        Severity(severity) if severity in tuple(Severity) else Severity.MINOR,
        str(given.get("file") or given.get("file_path") or "").strip(),
        line if isinstance(line, int) and line > 0 else 0,
        message[:500],
    )
