"""The slash commands of the linear mode: runs them and prints what they give back."""

from __future__ import annotations

from lmtui.commands.command import (
    Ask,
    AskYes,
    Begin,
    Choose,
    ConfirmRestore,
    Leave,
    OpenSession,
    OpenView,
    Output,
    Result,
    ReviewEffect,
)
from lmtui.commands.session_commands import title_of
from lmtui.commands.table import run_typed
from lmtui.core.errors import LmtuiError
from lmtui.core.event_text import changes_text, quoted
from lmtui.core.events import MessageAdded
from lmtui.core.messages import Role
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize_line, sanitize_path
from lmtui.core.workspace import EffectPart, EffectReview, part_line, units_of
from lmtui.plain.plain_session import PlainSession


def run_command(plain: PlainSession, text: str) -> bool:
    """Run a slash command; False for what goes to the model.

    Raises:
        EOFError: it was the command to leave.
    """
    call = plain.context.commands.parse(text)
    if call is None:
        return False
    plain.context.active = plain.session
    try:
        _render(plain, plain.loop.wait(run_typed(plain.context, text)), sanitize_line(call.name))
    except LmtuiError as error:
        plain.say(f"error: {error.full_text()}")
    return True


def _render(plain: PlainSession, result: Result, name: str) -> None:
    match result:
        case None:
            return
        case Output(lines=lines):
            plain.say(*lines)
        case OpenView(text=text, instead=instead):
            way = f" or use {instead}" if instead else ""
            missing = f"/{name} needs the full screen: run lmtui without --plain{way}; /help lists the commands of plain mode"
            plain.say(*plain.loop.wait(text()) if text is not None else (missing,))
        case Begin(start=start):
            plain.act(start)
        case OpenSession(session_id=session_id):
            plain.open(session_id)
            tell_where_it_stands(plain)
        case Ask(question=question, then=then, placeholder=placeholder):
            hint = f" ({placeholder})" if placeholder else ""
            typed = plain.terminal.read(f"{question}{hint}: ", start=result.start).strip()
            _render(plain, plain.loop.wait(then(typed)), name)
        case AskYes():
            plain.say(result.text)
            is_sure = plain.confirm(f"{result.question} yes or no? ")
            _render(plain, plain.loop.wait(result.then()) if is_sure else Output(("no changes made",)), name)
        case Choose(title=title, choices=choices, chosen=chosen):
            plain.say(f"{title}: {chosen}; there are {', '.join(choices)}")
        case ConfirmRestore():
            _restore(plain, result)
        case ReviewEffect(review=review):
            _review(plain, review)
        case Leave():
            raise EOFError


def tell_where_it_stands(plain: PlainSession) -> None:
    """Say which session is open and what was said last in it."""
    events = [envelope.event for envelope in plain.act(lambda session: session.history())]
    said = [event for event in events if isinstance(event, MessageAdded) and event.text.strip()]
    title = plain.act(title_of) or "new"
    plain.say(f"session {plain.session.id}: {title}, {pluralize(len(said), 'message')}")
    if said:
        plain.say("you said last:" if said[-1].role is Role.USER else "lmtui answered last:", *quoted(said[-1].text))


def _restore(plain: PlainSession, asked: ConfirmRestore) -> None:
    plan = plain.loop.wait(asked.plan())
    if plan.conflicts:
        plain.say(f"these files have changed since: {', '.join(map(sanitize_line, plan.conflicts))}")
        return
    plain.say(f"{plan.action} would do this: {changes_text(plan.changes) or 'nothing'}")
    if plan.unkept:
        plain.say(f"these files are lost for good: {', '.join(map(sanitize_path, plan.unkept))}")
    if plan.left_out:
        plain.say(f"not in a checkpoint, so not restored: {', '.join(escape_invisible_line(each) for each in plan.left_out)}")
    changes = plain.session.changes
    if changes is not None and plain.confirm("yes or no? "):
        plain.loop.wait(changes.apply(plan))
    else:
        plain.say("no changes made")


def _review(plain: PlainSession, review: EffectReview) -> None:
    """List the changes, and keep all, some files or nothing."""
    parts = plain.loop.wait(review.parts())
    plain.say("changes to merge:", *map(part_text, parts))
    plain.terminal.drop_typed()
    answer = plain.terminal.read("merge all, each (asks for each file), drop all, or nothing? ").strip().lower()
    kept: list[int] | None = [] if answer not in ("a", "all", "y", "yes") else None
    if answer in ("d", "drop"):
        plain.loop.wait(review.drop())
        plain.say("dropped; your files are unchanged")
        return
    for part, units in zip(parts, units_of(parts), strict=True) if answer in ("e", "each") else ():
        plain.say(*quoted(part.diff or "no text diff"))
        if kept is not None and plain.confirm(f"{part_text(part)}: yes or no? "):
            kept += units
    if kept == []:
        plain.say("nothing was merged; the changes stay in the overlay")
    else:
        plain.say("merged", *plain.loop.wait(review.keep(kept)))


def part_text(part: EffectPart) -> str:
    """Return a part of an effect in words, with a warning where git has no copy of it."""
    return f"{part_line(part)}{'' if part.is_tracked else ', not in git'}"
