"""Running a command in the sandbox; and git, with argument lists built here: the model chooses no options."""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PrivateAttr, ValidationInfo, model_validator

from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Access
from lmtui.core.permissions.shell_grammar import is_small, parse
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.programs import CodeResult, Interpreter
from lmtui.core.sanitize import pluralize
from lmtui.core.workspace import BackgroundCommand, CommandLimits, ExecResult
from lmtui.paths import MOUNT_POINT
from lmtui.tools.file_tools import is_kept_back
from lmtui.tools.tool import Arguments, EmptyArguments, OtherTool, Told, Tool, WorkspacePath, always, argument, below_root

_CODE_TITLE_CHARS = 120


class PythonArguments(Arguments):
    """What to run."""

    code: str = argument("", also=("source", "script", "input"))
    reset: bool = argument(default=False, also=("restart",), is_told=False)
    timeout: int = argument(60, also=("timeout_s", "timeout_seconds"), is_told=False, ge=1, le=600)


async def _python(arguments: PythonArguments, context: ToolContext) -> ToolResult:
    if arguments.reset:
        await context.features[Interpreter].close()
        if not arguments.code.strip():
            return ToolResult("The interpreter is a fresh one.", "reset")
    ran = await context.features[Interpreter].run(arguments.code, timeout_s=arguments.timeout, on_output=context.on_output)
    notes = (*_notes(ran, arguments.timeout), *ran.left)
    text = "\n".join(part for part in (ran.output.rstrip("\n"), *notes) if part) or "(no output)"
    ended = "error" * (not ran.is_ok) if not ran.is_timed_out else "timed out"
    return ToolResult(
        text, "interpreter ended" if ran.is_lost else ended, ok=ran.is_ok, images=ran.images if context.sees else ()
    )


def _notes(ran: CodeResult, timeout_s: int) -> tuple[str, ...]:
    """Return what the model has to know next to the output."""
    notes = []
    if ran.images:
        notes.append(f"({len(ran.images)} picture{'s' if len(ran.images) > 1 else ''} shown)")
    if ran.is_timed_out:
        notes.append(f"(stopped after {timeout_s} s)")
    if ran.is_lost:
        notes.append("(the interpreter ended: all names are gone; the next call begins a fresh one)")
    elif ran.is_fresh:
        notes.append("(a fresh interpreter: names of earlier sessions are not there)")
    return tuple(notes)


async def _code_preview(arguments: PythonArguments, _: ToolContext) -> Preview:
    reset = "# in a fresh interpreter\n" if arguments.reset else ""
    return Preview(reset + arguments.code, limits=f"up to {arguments.timeout} s")


PYTHON = Tool(
    name="python",
    description="Run Python; its names stay.",
    arguments=PythonArguments,
    run=_python,
    access=always(Access.EXECUTE),
    subject=lambda _: (),
    title=lambda arguments: " ".join(arguments.code.split())[:_CODE_TITLE_CHARS] or "reset",
    preview=_code_preview,
    aliases=("python_exec", "run_python", "execute_python", "pyexe", "ipython", "repl", "python_repl", "code_interpreter"),
    told=Told.SELDOM,
)


_TITLE_CHARS = 80


def _id(given: object) -> object:
    """Return an id that was given as its number alone as it is told."""
    return f"b{given}" if isinstance(given, int) or (isinstance(given, str) and given.isdecimal()) else given


class BackgroundArguments(Arguments):
    """Which command, and what to do with it."""

    action: Literal["read", "input", "stop", "list"] = argument("read")
    id: Annotated[str, BeforeValidator(_id)] = argument("", also=("command_id", "bash_id", "shell_id", "task_id", "process_id"))
    input: str = argument("", also=("text", "stdin", "data"))
    wait: int = argument(0, also=("wait_s", "timeout"), doc="seconds to wait for output")


async def _background(arguments: BackgroundArguments, context: ToolContext) -> ToolResult:
    background = context.sandbox.background
    wait_s = min(max(arguments.wait, 0), context.sandbox.limits.max_timeout_s)
    if arguments.action == "list" or not arguments.id:
        if arguments.action not in ("list", "read"):
            raise ToolError(f"{arguments.action} needs the id of a background command", "Give id, such as b1.")
        listed = background.commands()
        return ToolResult("\n".join(map(command_line, listed)) or "No background command was started.", f"{len(listed)}")
    if arguments.action == "stop":
        stopped = await background.stop(arguments.id)
        return ToolResult(command_line(stopped), stopped.state)
    if arguments.action == "input":
        await background.send(arguments.id, arguments.input if arguments.input.endswith("\n") else f"{arguments.input}\n")
        wait_s = wait_s or 1
    text, command = await background.read(arguments.id, wait_s)
    return ToolResult(f"{text.rstrip() or '(no new output)'}\n({command.id} {command.state})", command.state)


def command_line(command: BackgroundCommand) -> str:
    """Return one command in a line."""
    return f"{command.id}  {command.state}  {command.command}"


async def _background_preview(arguments: BackgroundArguments, _: ToolContext) -> Preview:
    return Preview(f"{arguments.id} gets the input:\n{arguments.input}")


BACKGROUND = Tool(
    name="background",
    description="Read, feed, stop or list background commands.",
    arguments=BackgroundArguments,
    run=_background,
    access=lambda arguments: Access.EXECUTE if arguments.action == "input" else Access.NONE,
    subject=lambda _: (),
    title=lambda arguments: f"{arguments.action} {arguments.id} {' '.join(arguments.input.split())}".strip()[:_TITLE_CHARS],
    preview=_background_preview,
    aliases=("bash_output", "task_output", "process"),
    told=Told.SELDOM,
)


_MIN_MEMORY_MB = 64
_PLAIN_PATH = re.compile(r"/[\w./@%+:,-]+")  # what a shell takes as it is
_FIRST_OUTPUT_S = 2.0
_HOW_TO_GO_ON = '; the tool background continues it: {{"id": "{id}"}} reads, {{"id": "{id}", "action": "stop"}} ends it'


# How models write a message of several lines.  A line that begins with the mark may end it earlier,
# so none does.  Where the mark has no quotes, a shell replaces some signs, so there are none.
_MESSAGE = re.compile(
    r"((?:-[a-zA-Z]*m|--message|--body)[ =])\"\$\(cat <<(')?(\w+)(?(2)')\n((?:(?![ \t]*\3)(?(2)[^\n]*|[^\n$`\\]*)\n)*)\3\n\)\""
)
_WORD = "lmtui-message"
_FROM_INPUT = re.compile(
    r"(?:(-[a-zA-Z]*)F ?|--file[ =])-((?: +[^ \n|;&<]+)*) *<<(['\"])?(\w+)(?(3)\3)([^\n]*)\n((?:(?!\4)[^\n]*\n)*)\4(?=\n|\Z)"
)


def _with_plain_messages(command: str) -> str:
    """Return a command with messages from here-documents in quotes: lmtui reads these, and so does every shell.

    Nothing is changed where one is only a part of a word, as in other quotes, or where the command is not understood.
    """
    if not is_small(command):
        return command
    in_option = _FROM_INPUT.sub(_as_option, command)
    marked, count = _MESSAGE.subn(rf"\g<1>{_WORD}", in_option)
    words = [word.removeprefix("--message=").removeprefix("--body=") for part in parse(marked).commands for word in part.words]
    is_plain = count == words.count(_WORD) == command.count("<<") and _WORD not in command
    plain = _MESSAGE.sub(lambda found: found[1] + shlex.quote(found[4].rstrip("\n")), in_option)
    return plain if count and is_plain else command


def _as_option(found: re.Match[str]) -> str:
    """Return `-F -` with its here-document as the option `-m` with the same."""
    letters, between, quote, mark, after, text = found.groups()
    start = f"'{mark}'" if quote else mark
    return f'{letters or "-"}m "$(cat <<{start}\n{text}{mark}\n)"{between}{after}'


TIMEOUT_DOC = "seconds; default {limits.timeout_s}, limit {limits.max_timeout_s}"


class ShellArguments(Arguments):
    """What to run."""

    command: Annotated[str, AfterValidator(_with_plain_messages)] = argument(also=("cmd", "script", "code"))
    timeout: int = argument(0, also=("timeout_s", "timeout_seconds"), doc=TIMEOUT_DOC.format(limits=CommandLimits()))
    background: bool = argument(default=False, also=("run_in_background", "is_background"))
    network: bool = argument(default=False, also=("allow_network", "needs_network"), doc="to install packages")
    memory_mb: int = argument(0, also=("max_memory_mb",), is_told=False)
    _subject: str = PrivateAttr("")
    cwd: str = argument("", also=("workdir", "work_dir", "working_directory", "working_dir", "directory"), is_told=False)

    @model_validator(mode="before")
    @classmethod
    def _in_its_folder(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Put the folder into the command, so that rules, questions and the log show the line that runs."""
        cwd, command = given.get("cwd"), given.get("command")
        if not isinstance(cwd, str) or not isinstance(command, str):
            return given
        folder = below_root(cwd.strip(), info)
        folder = f"./{folder}" if folder.startswith("-") else folder
        then = " || exit\n" if "\n" in command.strip() else " && "
        whole = f"cd {shlex.quote(folder)}{then}{command}" if folder else command
        return {name: value for name, value in given.items() if name != "cwd"} | {"command": whole}

    @model_validator(mode="after")
    def _with_one_name_for_the_folder(self, info: ValidationInfo) -> ShellArguments:
        """Let rules see one name of the workspace, whichever of its names a command uses."""
        text = self.command
        for root in info.context or ():
            if _PLAIN_PATH.fullmatch(root):
                text = re.sub(rf"(?<![\w./-]){re.escape(root)}(?![\w.-])", MOUNT_POINT, text)
        self._subject = text
        return self

    @property
    def subject(self) -> str:
        """Return the command as rules see it."""
        return self._subject


_SEARCHES = re.compile(r"(?:\A|[|;&]\s*)(?:[efz]?grep|rg)\s[^|;&\n]*\Z")


async def _shell(arguments: ShellArguments, context: ToolContext) -> ToolResult:
    limits = context.sandbox.limits
    if arguments.background:
        if arguments.network:
            raise ToolError("a background command has no network", "Install first, with network=true and without background.")
        return await _start(arguments.command, context)
    result = await context.sandbox.run_command(
        arguments.command,
        timeout_s=_timeout_s(arguments, limits),
        memory_mb=_memory_mb(arguments, limits),
        on_output=context.on_output,
        gate=context.gate,
        with_packages=arguments.network,
    )
    said_nothing = result.exit_code == 1 and result.output.strip() in ("", "0")
    if said_nothing and _SEARCHES.search(arguments.command):  # so grep and ripgrep tell that nothing matched
        return ToolResult(f"{result.text.rstrip()}\n(nothing matched)".lstrip("\n"), "no match")
    return ToolResult(command_text(result, limits), _summary(result), ok=result.exit_code == 0)


async def _start(command: str, context: ToolContext) -> ToolResult:
    """Start a command that stays, and tell what it says at once."""
    started = await context.sandbox.background.start(command)
    text, now = await context.sandbox.background.read(started.id, _FIRST_OUTPUT_S)
    text = text.rstrip() or "(no output yet)"
    return ToolResult(
        f"{text}\n({now.id} {now.state}{_HOW_TO_GO_ON.format(id=now.id) if now.exit_code is None else ''})",
        f"{now.id} {now.state}",
    )


async def _preview(arguments: ShellArguments, context: ToolContext) -> Preview:
    limits = context.sandbox.limits
    if arguments.background:
        memory = f"{limits.memory_mb:,} MB"
        return Preview(arguments.command, limits=f"in the background until it is stopped or the session ends, {memory}")
    shown = f"up to {_timeout_s(arguments, limits)} s, {_memory_mb(arguments, limits):,} MB"
    if arguments.network:
        hosts = await context.sandbox.package_hosts()
        shown += f"; reaches {', '.join(hosts)} and where it keeps its files" if hosts else "; asks for each host"
    return Preview(arguments.command, limits=shown)


def _timeout_s(arguments: ShellArguments, limits: CommandLimits) -> int:
    return min(arguments.timeout, limits.max_timeout_s) if arguments.timeout > 0 else limits.timeout_s


def _memory_mb(arguments: ShellArguments, limits: CommandLimits) -> int:
    return min(max(arguments.memory_mb, _MIN_MEMORY_MB), limits.memory_mb) if arguments.memory_mb > 0 else limits.memory_mb


def command_text(result: ExecResult, limits: CommandLimits) -> str:
    """Return what the model gets of a command: the output, and how it ended where that was not well."""
    parts = [text] if (text := result.text).strip() else []
    if result.is_timed_out:
        stopped = f"stopped after {result.elapsed_ms / 1000:.0f} s; everything it started is gone"
        parts.append(f"({stopped}; timeout can be up to {limits.max_timeout_s}, background=true has no limit)")
    elif result.exit_code != 0:
        killed = ": killed, often for memory" if result.exit_code == 137 else ""
        parts.append(f"(exit code {result.exit_code}{killed})")
    if result.saved_path:
        parts.append(f"(output was long: {result.total_bytes:,} bytes; the first megabyte is in {result.saved_path})")
    return "\n".join(parts) or "(no output)"


def _summary(result: ExecResult) -> str:
    if result.is_timed_out:
        return "timed out"
    return "" if result.exit_code == 0 else f"exit {result.exit_code}"


SHELL = Tool(
    name="shell",
    description="Run a bash command.",
    arguments=ShellArguments,
    run=_shell,
    access=always(Access.EXECUTE),
    subject=lambda arguments: arguments.subject,
    title=lambda arguments: " ".join(arguments.command.split()),
    preview=_preview,
    aliases=("bash", "shell_exec", "run_shell_command", "exec_command", "run_command", "terminal", "shell_command", "execute"),
)


_BRANCH = re.compile(r"(?![-./])(?!.*(?:\.\.|//|@\{|\.lock\Z))[A-Za-z0-9_.\-/]{1,200}(?<![./])\Z")
_MOST_NAMES_BYTES = 50_000


class GitDiffArguments(Arguments):
    """Of what."""

    path: WorkspacePath = argument("", also=("file", "file_path"))
    staged: bool = argument(default=False, also=("cached",))


class GitAddArguments(Arguments):
    """Which files."""

    paths: list[WorkspacePath] = argument(also=("files", "path"), min_length=1)


class GitCommitArguments(Arguments):
    """With which words."""

    message: str = argument(also=("msg", "commit_message"))
    allow_empty: bool = argument(default=False, is_told=False)


class GitBranchArguments(Arguments):
    """Which branch; none lists them."""

    name: str = argument("", also=("branch",))
    create: bool = argument(default=False)
    switch: bool = argument(default=False)


async def _status(_: EmptyArguments, context: ToolContext) -> ToolResult:
    result = await _git(context, "status", "--short", "--branch", "--untracked-files=normal")
    lines = result.output.rstrip("\n").splitlines()
    files = len([line for line in lines if not line.startswith("##")])
    return ToolResult("\n".join(lines) if files else f"{''.join(lines)}\nclean", f"{files} changed" if files else "clean")


async def _diff(arguments: GitDiffArguments, context: ToolContext) -> ToolResult:
    staged = ["--cached"] if arguments.staged else []
    names = await _changed_names(context, staged, arguments.path)
    shown = [name for name in names if not is_kept_back(name, arguments.path, context)]
    left_out = len(names) - len(shown)
    note = f"\n({pluralize(left_out, 'file')} left out: secrets, or forbidden; git_diff of one asks)" if left_out else ""
    if not shown:
        return ToolResult(f"no differences{note}", "none")
    paths = ["--", *(shown if left_out else [arguments.path] if arguments.path else [])]
    result = await _git(context, "diff", "--no-ext-diff", "--no-textconv", *staged, *paths)
    return ToolResult((result.output.rstrip("\n") or "no differences") + note)


async def _changed_names(context: ToolContext, staged: list[str], path: str) -> list[str]:
    """Return the files of a difference; of a renamed one both names."""
    result = await _git(context, "diff", "--name-only", "--no-renames", *staged, "--", *([path] if path else []))
    if result.total_bytes > _MOST_NAMES_BYTES:
        raise ToolError("too many files changed", "Name a folder or a file.")
    return [_unquoted(line) for line in result.output.split("\n") if line]


def _unquoted(name: str) -> str:
    """Return a file's name as it is; git quotes odd ones as C does (git-config(1), core.quotePath)."""
    if not name.startswith('"'):
        return name
    return name[1:-1].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")


async def _add(arguments: GitAddArguments, context: ToolContext) -> ToolResult:
    await _git(context, "add", "--", *(path or "." for path in arguments.paths), writes=True)
    return ToolResult("ok", pluralize(len(arguments.paths), "path"))


async def _commit(arguments: GitCommitArguments, context: ToolContext) -> ToolResult:
    if not arguments.message.strip():
        raise ToolError("a commit needs a message")
    empty = ["--allow-empty"] if arguments.allow_empty else []
    made = await _git(context, "commit", "--quiet", f"--message={arguments.message}", *empty, writes=True)
    head = await _git(context, "log", "-1", "--abbrev=8", "--format=%h by %an <%ae>")
    text = "\n".join([f"committed {head.output.strip()}", *made.notes])
    return ToolResult(text, head.output.partition(" ")[0])


async def _branch(arguments: GitBranchArguments, context: ToolContext) -> ToolResult:
    if not arguments.name:
        result = await _git(context, "branch", "--list", "--no-color")
        return ToolResult(result.output.rstrip("\n") or "no branches yet", "")
    if _BRANCH.match(arguments.name) is None:
        raise ToolError(f"not a branch name: {arguments.name!r}", "Letters, digits, and - _ . / in the middle.")
    if not arguments.create and not arguments.switch:
        raise ToolError("say what to do with the branch: create or switch")
    option = ["--create"] if arguments.create else []
    made = await _git(context, "switch", "--no-guess", *option, arguments.name, writes=True)
    return ToolResult("\n".join([f"on {arguments.name}", *made.notes]), arguments.name)


async def _git(context: ToolContext, *arguments: str, writes: bool = False) -> ExecResult:
    result = await context.sandbox.run_git(arguments, writes=writes)
    if result.exit_code != 0:
        raise ToolError(result.text.strip() or f"git {arguments[0]} failed (exit code {result.exit_code})")
    return result


async def _preview_add(arguments: GitAddArguments, context: ToolContext) -> Preview:
    paths = [path or "." for path in arguments.paths]
    result = await context.sandbox.run_git(("status", "--short", "--untracked-files=all", "--", *paths))
    return Preview(f"git add {' '.join(paths)}\n\n{result.output.rstrip()}")


async def _preview_commit(arguments: GitCommitArguments, context: ToolContext) -> Preview:
    result = await context.sandbox.run_git(("diff", "--no-ext-diff", "--no-textconv", "--cached", "--stat"))
    return Preview(f"git commit\n\n{arguments.message}\n\n{result.output.strip()}")


STATUS = Tool(
    name="git_status",
    description="Show branch and changed files.",
    arguments=EmptyArguments,
    run=_status,
    access=always(Access.READ),
    subject=lambda _: ".",
    title=lambda _: "",
)
DIFF = Tool(
    name="git_diff",
    description="Show unstaged or staged changes.",
    arguments=GitDiffArguments,
    run=_diff,
    access=always(Access.READ),
    subject=lambda arguments: arguments.path or ".",
    title=lambda arguments: f"{'staged ' if arguments.staged else ''}{arguments.path}".strip(),
)
ADD = Tool(
    name="git_add",
    description="Stage files.",
    arguments=GitAddArguments,
    run=_add,
    access=always(Access.WRITE),
    subject=lambda arguments: tuple(arguments.paths),
    title=lambda arguments: " ".join(path or "." for path in arguments.paths),
    preview=_preview_add,
)
COMMIT = Tool(
    name="git_commit",
    description="Commit what is staged.",
    arguments=GitCommitArguments,
    run=_commit,
    access=always(Access.WRITE),
    subject=lambda arguments: arguments.message,
    title=lambda arguments: arguments.message.strip().partition("\n")[0],
    preview=_preview_commit,
)
BRANCH = Tool(
    name="git_branch",
    description="List branches, make one or switch.",
    arguments=GitBranchArguments,
    run=_branch,
    access=lambda arguments: Access.WRITE if arguments.name else Access.READ,
    subject=lambda arguments: arguments.name,
    title=lambda arguments: f"{'create ' * arguments.create or 'switch ' * arguments.switch}{arguments.name}",
)


COMMANDS = (SHELL, BACKGROUND, STATUS, DIFF, ADD, COMMIT, BRANCH)


def _keeping_slash(path: str, info: ValidationInfo) -> str:
    return below_root(path, info) + ("/" if path.rstrip("/") and path.endswith("/") else "")


_TO = "to target dest dst new new_path new_name target_path to_path destination_path new_file"
_FROM = "from src old old_path old_name from_path source_path path file file_path name filename"


class PathsArguments(Arguments):
    """Paths for a program."""

    def command(self, program: str) -> dict[str, object]:
        """Return the call of the shell that runs a program on them."""
        return {"command": " ".join((program, *map(_quoted, self.model_dump().values())))}


class TwoPathsArguments(PathsArguments):
    """From where to where."""

    source: WorkspacePath = argument(also=(*_FROM.split(),))
    destination: Annotated[str, AfterValidator(_keeping_slash)] = argument(also=(*_TO.split(),))

    def renamed(self) -> dict[str, object]:
        """Return the call that renames: a bare new name is one in the same folder."""
        folder = posixpath.dirname(self.source)
        target = self.destination if "/" in self.destination else posixpath.join(folder, self.destination)
        return self.model_copy(update={"destination": target}).command("mv")


class OnePathArguments(PathsArguments):
    """Which file or folder."""

    path: WorkspacePath = argument(also=("file", "file_path", "filename", "folder", "directory", "name", "target"))


class RunArguments(Arguments):
    """What to run: a command, or a file with its arguments."""

    command: str = argument("", also=("cmd", "script", "code"))
    path: WorkspacePath = argument("", also=("file", "file_path", "filename"))
    args: list[str] | str = argument("", also=("arguments",))

    def line(self) -> dict[str, object]:
        """Return the call of the shell."""
        args = self.args if isinstance(self.args, str) else shlex.join(self.args)
        runner = {".py": "python3 ", ".sh": "bash ", ".js": "node "}.get(posixpath.splitext(self.path)[1], "./")
        file = f"{runner}{shlex.quote(self.path)}" if self.path else ""
        return {"command": " ".join(part for part in (self.command or file, args) if part)}


def _quoted(path: str) -> str:
    return shlex.quote(f"./{path}" if path.startswith("-") else path or ".")


OTHER_TOOLS: tuple[OtherTool[Any], ...] = (
    OtherTool(("rename", "rename_file"), TwoPathsArguments, "shell", TwoPathsArguments.renamed),
    OtherTool(("move", "move_file", "mv"), TwoPathsArguments, "shell", lambda given: given.command("mv")),
    OtherTool(("copy", "copy_file", "cp"), TwoPathsArguments, "shell", lambda given: given.command("cp -r")),
    OtherTool(
        ("delete", "delete_file", "remove", "remove_file", "rm"), OnePathArguments, "shell", lambda given: given.command("rm")
    ),
    OtherTool(("delete_directory", "delete_folder", "rmdir"), OnePathArguments, "shell", lambda given: given.command("rmdir")),
    OtherTool(("touch",), OnePathArguments, "shell", lambda given: given.command("touch")),
    OtherTool(("run", "run_file", "run_script", "exec"), RunArguments, "shell", RunArguments.line),
)
