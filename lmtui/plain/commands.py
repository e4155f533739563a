"""The slash commands of the linear mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.event_text import begin_deep, budget_words, calls_words, set_budget, set_calls
from lmtui.core.events import MessageAdded, PlanChanged, SessionRenamed
from lmtui.core.instruction_values import WHOLE_CHARS, guidance_lines, init_task, persona_lines
from lmtui.core.jobs import job_lines
from lmtui.core.mcp import McpServer, McpServers, ServerState
from lmtui.core.messages import Role
from lmtui.core.permissions.rules import Mode
from lmtui.core.prompt_text import AS_WORDS, OWN_NAMES, nearest, slash_call
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize_line, sanitize_path
from lmtui.core.sessions import Changes, Restoration, SessionSummary
from lmtui.core.skills import promote_call, skill_call, skill_lines
from lmtui.headless.typed_commands import WAYS
from lmtui.plain.event_printer import INDENT, changes_text, plan_lines, quoted
from lmtui.plain.plain_session import PlainSession


def say_instructions(desk: PlainSession, _: str) -> None:
    """Say which instructions are read."""
    desk.say(*guidance_lines(desk.room.wait(desk.host.guide.read(WHOLE_CHARS))))


def say_persona(desk: PlainSession, _: str) -> None:
    """Say who the agent is told to be."""
    desk.say(*persona_lines(desk.room.wait(desk.host.guide.read(WHOLE_CHARS))))


def draft_instructions(desk: PlainSession, focus: str) -> None:
    """Have the model draft an AGENTS.md."""
    desk.act(lambda session: session.submit(init_task(focus)))


def use_skill(desk: PlainSession, argument: str) -> None:
    """Say which skills there are, or have one followed."""
    skills = desk.host.extensions.skills
    name, words = skill_call(argument)
    if not name:
        desk.say(*skill_lines(desk.room.wait(skills.found()), skills.promoted()))
        return
    used = desk.room.wait(skills.use(name))
    desk.act(lambda session: session.skills.begin(used, words))


def promote(desk: PlainSession, argument: str) -> None:
    """Ask whether a function may become a tool."""
    path, function, name = promote_call(argument)
    desk.act(lambda session: session.skills.promote(path, function, name))


def say_prompt_files(desk: PlainSession, _: str) -> None:
    """Say which commands are Markdown files or prompts of MCP servers."""
    for file in desk.host.extensions.prompts.found():
        runs = "" if file.may_run else " (its commands wait for trust: `lmtui config trust`)"
        words = sanitize_line(file.problem or file.description)
        desk.say(f"{sanitize_line(file.label)}: {words}{runs}, from {sanitize_line(file.source)}")


def run_prompt_file(desk: PlainSession, text: str) -> bool:
    """Run the command of a file; False where there is none of that name."""
    try:
        prompt = desk.room.wait(desk.host.extensions.prompts.read(text))
    except LmtuiError as error:
        desk.say(f"error: {error.full_text()}")
        return True
    if prompt is None:
        return False
    desk.act(lambda session: session.prompts.begin(prompt, text.strip()))
    return True


_USE = "Say /mcp, or /mcp yes|on|off|restart|tools NAME."


def mind_servers(desk: PlainSession, argument: str) -> None:
    """Say where the servers are, or do what is asked with one.

    Raises:
        UsageError: no such server, or no such word.
    """
    servers = desk.host.extensions.mcp
    word, _, name = argument.strip().partition(" ")
    if not word:
        desk.say(*[server_line(each) for each in servers.servers()], *map(sanitize_line, servers.problems()))
        if not servers.servers() and not servers.problems():
            desk.say("no MCP servers are named here")
        return
    server = next((each for each in servers.servers() if each.name == name.strip()), None)
    if server is None:
        raise UsageError(f"no MCP server {name.strip()!r}", _USE)
    _do(desk, servers, server, word.lower())


def _do(desk: PlainSession, servers: McpServers, server: McpServer, word: str) -> None:
    match word:
        case "tools":
            desk.say(*[f"{tool.name} ({tool.tokens} tokens): {tool.description}" for tool in (*server.offered, *server.tools)])
        case "yes":
            servers.accept(server.name)
        case "on" | "off":
            servers.enable(server.name, is_on=word == "on")
        case "restart":
            servers.restart(server.name)
        case _:
            raise UsageError(f"{word!r} is nothing that can be done with a server", _USE)
    if word != "tools":
        desk.say(f"{sanitize_line(server.name)}: {word}")


def server_line(server: McpServer) -> str:
    """Return where a server is, in one line."""
    tools = f", {pluralize(len(server.tools), 'tool')}, {server.tokens:,} tokens" if server.state is ServerState.READY else ""
    place = "".join(f", {part}" for part in (server.brings, server.place) if part)
    problem = f": {server.problem}" if server.problem else ""
    return sanitize_line(f"{server.name}: {server.state}{tools}{place}{problem}")


MAX_SESSIONS = 20


class LeaveCommand(Exception):
    """The user leaves."""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command: what may follow its name, what it does in words, and the deed."""

    argument: str
    text: str
    run: Callable[[Commands, str], None]


class Commands:
    """Runs commands on a desk."""

    def __init__(self, desk: PlainSession) -> None:
        self.desk = desk
        self._listed: Sequence[SessionSummary] = ()

    def run(self, text: str) -> bool:
        """Run a slash command; False for what goes to the model (see `slash_call`).

        Raises:
            Left: it was the command to leave.
        """
        call = ("quit", "") if text.strip() == "quit" else slash_call(text)
        if call is None:
            return False
        name, argument = call[0].lower(), call[1]
        found = COMMANDS.get(_OTHER_NAMES.get(name, name))
        if found is None:
            if not run_prompt_file(self.desk, text):
                self.desk.say(self._missing(name))
            return True
        try:
            found.run(self, argument)
        except LmtuiError as error:
            self.desk.say(f"error: {error.full_text()}")
        return True

    def _missing(self, name: str) -> str:
        """Return that there is no such command here, and the way out."""
        if name in OWN_NAMES:
            way = f" or use {WAYS[name]}" if name in WAYS else ""
            return f"/{name} needs the full screen: run lmtui without --plain{way}; /help lists what can be done here"
        known = (*COMMANDS, *(file.name for file in self.desk.host.extensions.prompts.found() if not file.problem))
        return " ".join(
            filter(None, (f"no command /{sanitize_line(name)}.", nearest(name, known), "/help lists them.", AS_WORDS))
        )

    def help(self, _: str) -> None:
        """List the commands."""
        for name, each in COMMANDS.items():
            self.desk.say(f"/{name}{f' {each.argument}' if each.argument else ''}: {each.text}")
        say_prompt_files(self.desk, "")
        self.desk.say(
            "!command runs a shell command of your own; with !! the model is not told of it",
            "a line that ends in a backslash goes on in the next; three backticks begin and end many lines",
            "ctrl+c stops the agent; twice it leaves",
        )

    def leave(self, _: str) -> None:
        """Leave."""
        raise LeaveCommand

    def sessions(self, words: str) -> None:
        """List sessions with numbers to resume them by."""
        self._listed = self.desk.host.archive.sessions(words, MAX_SESSIONS)
        for number, each in enumerate(self._listed, 1):
            here = ", this one" if each.id == self.desk.session.id else ""
            title = sanitize_line(each.title) or "without a title"
            self.desk.say(
                f"{number}. {title}: {each.state}, {pluralize(each.changed_files, 'file')} changed, id {each.id}{here}"
            )
        self.desk.say("/resume and a number opens one" if self._listed else "no sessions")

    def jobs(self, _: str) -> None:
        """List the jobs."""
        read = self.desk.room.wait(self.desk.host.jobs.read())
        self.desk.say(*job_lines(read.records, datetime.now(UTC)), "`lmtui submit` and `lmtui jobs` in a shell change them")

    def new(self, _: str) -> None:
        """Open a new session."""
        self.desk.open()
        self.desk.say(f"a new session, id {self.desk.session.id}")

    def resume(self, which: str) -> None:
        """Open an earlier session by its number in the list or its id."""
        if not which:
            self.sessions("")
            return
        is_listed = which.isdecimal() and 0 < int(which) <= len(self._listed)
        self.desk.open(self._listed[int(which) - 1].id if is_listed else which)
        self.tell_where_it_stands()

    def tell_where_it_stands(self) -> None:
        """Say which session is open and what was said last in it."""
        events = [envelope.event for envelope in self.desk.act(lambda session: session.history())]
        titles = [event.title for event in events if isinstance(event, SessionRenamed)]
        said = [event for event in events if isinstance(event, MessageAdded) and event.text.strip()]
        title = sanitize_line(titles[-1]) if titles else "without a title"
        self.desk.say(f"session {self.desk.session.id}: {title}, {pluralize(len(said), 'message')}")
        if said:
            self.desk.say("you said last:" if said[-1].role is Role.USER else "lmtui answered last:", *quoted(said[-1].text))

    def mode(self, name: str) -> None:
        """Say the mode, or change it."""
        if not name:
            self.desk.say(f"mode: {self.desk.session.mode.value}; there are {', '.join(Mode)}")
        elif name in set(Mode):
            self.desk.act(lambda session: session.set_mode(Mode(name)))
        else:
            self.desk.say(f"no mode {sanitize_line(name)}; there are {', '.join(Mode)}")

    def model(self, name: str) -> None:
        """List the models, or take another."""
        if name:
            self.desk.act(lambda session: session.set_model(name))
            return
        for server in self.desk.room.wait(self.desk.host.servers.find()):
            self.desk.say(f"{sanitize_line(server.kind)} at {sanitize_line(server.url)}:")
            self.desk.say(*(f"{INDENT}{sanitize_line(model.name)}" for model in server.chat_models))
        self.desk.say("/model and a name takes another of the server in use")

    def calls(self, form: str) -> None:
        """Say in which form the model calls tools, or set it."""
        if form:
            self.desk.act(lambda session: set_calls(session.calls, form))
        self.desk.say(self.desk.act(lambda session: calls_words(session.calls)))

    def compact(self, focus: str) -> None:
        """Make room in the model's window."""
        self.desk.act(lambda session: session.waiting.make_room(focus))

    def budget(self, words: str) -> None:
        """Say what the session may spend, or set it."""
        if words:
            self.desk.act(lambda session: set_budget(session.budget, words))
        self.desk.say(self.desk.act(lambda session: budget_words(session.budget)))

    def deep(self, words: str) -> None:
        """Plan a task first and carry it out under a budget."""
        task = self.desk.act(lambda session: begin_deep(session.budget, words))
        self.plan(task)

    def rename(self, title: str) -> None:
        """Give the session a title."""
        if title:
            self.desk.act(lambda session: session.rename(title))
        self.desk.say(f"the title is {sanitize_line(title)}" if title else "/rename wants a title")

    def background(self, words: str) -> None:
        """List the background commands, or stop one."""
        background = self.desk.session.background
        verb, _, identity = words.partition(" ")
        stopped = [self.desk.room.wait(background.stop(identity))] if verb == "stop" else []
        listed = [f"{each.id}  {each.state}  {sanitize_line(each.command)}" for each in stopped or background.commands()]
        self.desk.say(*(listed or ["no command runs in the background"]))

    def status(self, _: str) -> None:
        """Say where one is."""
        session = self.desk.session
        parts = self.desk.act(lambda session: session.window_use.parts())
        self.desk.say(
            f"session {session.id}",
            f"folder {sanitize_line(str(self.desk.host.workspace))}",
            f"mode {session.mode.value}",
            f"the next request holds about {pluralize(sum(part.tokens for part in parts), 'token')}",
        )

    def plan(self, task: str) -> None:
        """Say the plan and the todos, or plan a task: plan mode, in which nothing is changed."""
        if task:
            self.desk.act(lambda session: session.set_mode(Mode.PLAN))
            self.desk.act(lambda session: session.submit(task))
            return
        events = [envelope.event for envelope in self.desk.act(lambda session: session.history())]
        changed = next((event for event in reversed(events) if isinstance(event, PlanChanged)), None)
        if changed is None:
            self.desk.say("no plan and no todos yet")
            return
        self.desk.say(*plan_lines(changed))
        for item in (*changed.plan.steps, *changed.plan.todos):
            self.desk.say(f"{INDENT}{item.status.value.replace('_', ' ')}: {sanitize_line(item.text)}")

    def changes(self, path: str) -> None:
        """Say which files the session changed, or read out how it changed one."""
        changes = self._changes()
        if changes is None:
            return
        total = self.desk.room.wait(changes.total())
        if path:
            found = [change for change in total if change.path == path]
            self.desk.say(*(line for change in found for line in quoted(change.diff or "no text")))
            total = () if found else total
            if not found:
                self.desk.say(f"this session did not change {sanitize_path(path)}")
        self.desk.say(*(changes_text([change]) for change in total))
        if not total and not path:
            self.desk.say("nothing is changed")

    def undo(self, number: str) -> None:
        """Take back the last steps."""
        changes = self._changes()
        if changes is not None:
            self._apply(changes, self.desk.room.wait(changes.plan_undo(_number(number))))

    def redo(self, number: str) -> None:
        """Do again what was taken back."""
        changes = self._changes()
        if changes is not None:
            self._apply(changes, self.desk.room.wait(changes.plan_redo(_number(number))))

    def _changes(self) -> Changes | None:
        changes = self.desk.session.changes
        if changes is None:
            self.desk.say("no checkpoints can be made here, so there is nothing to see or to take back")
        return changes

    def _apply(self, changes: Changes, plan: Restoration) -> None:
        if plan.conflicts:
            self.desk.say(
                f"refused, because these changed since by another hand: {', '.join(map(sanitize_line, plan.conflicts))}"
            )
            return
        self.desk.say(f"{plan.action} would do this: {changes_text(plan.changes) or 'nothing'}")
        if plan.unkept:
            self.desk.say(
                f"these are replaced, and their current content is lost: {', '.join(map(sanitize_path, plan.unkept))}"
            )
        if plan.left_out:
            self.desk.say(f"not kept, so not put back: {', '.join(escape_invisible_line(each) for each in plan.left_out)}")
        self.desk.terminal.drop_typed()
        if self.desk.terminal.read("yes or no? ").strip().lower() in ("y", "yes"):
            self.desk.room.wait(changes.apply(plan))
        else:
            self.desk.say("nothing is changed")


def _number(text: str) -> int:
    return max(1, int(text)) if text.isdecimal() else 1


def _on(act: Callable[[PlainSession, str], None]) -> Callable[[Commands, str], None]:
    return lambda commands, words: act(commands.desk, words)


COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand("", "say all commands", Commands.help),
    "sessions": SlashCommand("[words]", "list the sessions, or those that say these words", Commands.sessions),
    "jobs": SlashCommand("", "list what runs by itself, and when", Commands.jobs),
    "background": SlashCommand("[stop b1]", "list the commands that run in the background, or stop one", Commands.background),
    "new": SlashCommand("", "begin a new session", Commands.new),
    "resume": SlashCommand("number or id", "go on with an earlier session", Commands.resume),
    "rename": SlashCommand("title", "give this session a title", Commands.rename),
    "mode": SlashCommand("[name]", "say or change how much is asked: manual, normal, auto, plan", Commands.mode),
    "model": SlashCommand("[name]", "list the models, or take another", Commands.model),
    "calls": SlashCommand("[form]", "say or set the form of calls: auto, native, text, schema", Commands.calls),
    "compact": SlashCommand("[what matters]", "sum up now what the model was sent, to make room", Commands.compact),
    "budget": SlashCommand("[3h 200 steps]", "say or set what this session may spend; off takes it away", Commands.budget),
    "deep": SlashCommand("budget task", "plan a task and carry it out under a budget, such as 3h 200 steps", Commands.deep),
    "plan": SlashCommand("[task]", "say the plan and the todos; with a task, plan it first and change nothing", Commands.plan),
    "changes": SlashCommand("[file]", "say what this session changed, or read out how it changed a file", Commands.changes),
    "undo": SlashCommand("[number]", "take back the last steps; asks first", Commands.undo),
    "redo": SlashCommand("[number]", "do again what was taken back; asks first", Commands.redo),
    "status": SlashCommand("", "say session, folder, mode and use of the window", Commands.status),
    "mcp": SlashCommand("[yes|on|off|restart|tools NAME]", "say where the MCP servers stand, or mind one", _on(mind_servers)),
    "instructions": SlashCommand("", "say which AGENTS.md and other instructions are read", _on(say_instructions)),
    "soul": SlashCommand("", "say the persona", _on(say_persona)),
    "init": SlashCommand("[what matters]", "have the model draft an AGENTS.md from this folder", _on(draft_instructions)),
    "skill": SlashCommand("[name words]", "list the skills, or have one followed", _on(use_skill)),
    "promote": SlashCommand("file function [name]", "let a Python function become a tool; asks first", _on(promote)),
    "commands": SlashCommand("", "list the commands that are Markdown files or prompts of MCP servers", _on(say_prompt_files)),
    "quit": SlashCommand("", "leave", Commands.leave),
}
_OTHER_NAMES = {"exit": "quit", "clear": "new", "todo": "plan", "skills": "skill"}
