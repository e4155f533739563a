"""`lmtui doctor`: everything that lmtui needs, row by row, each with what to do about it."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from lmtui.app.checks import FULL, BackendReport, backend_reports, counter_name, free_space, workspace_problem
from lmtui.app.extensions import IdleWorkspace, WorkspaceFeatures
from lmtui.app.folder_rules import kept_problems, rules_in_force, unmatched
from lmtui.app.model_servers import Servers, lacking_models, largest_model, silent_address
from lmtui.command_line import FAILURE, NONE, OK, WARNING, CheckRow, print_report
from lmtui.config import Loaded
from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.roles import parse_roles, unasked_roles
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.servers import KEY_HINT, KEY_NOTES, ServerFound, server_lines, size_text, window_words
from lmtui.paths import WORKSPACE_FOLDER, config_dir, state_dir
from lmtui.plain_files import list_plain

_OTHER_SERVER = "Start it, or name another: LLM_URL, or `url` in your settings."
_LEAST_FREE, _MOST_MEMORY, _MOST_NAMED = 5_000_000_000, 0.9, 20
_SIGNS = {OK: "✓", NONE: "–", WARNING: "!", FAILURE: "✗"}


async def report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Print every row; 0 all well, 1 warnings, 2 failures."""
    rows = [*_program_rows(), *_workspace_rows(workspace, loaded)]
    if workspace_problem(workspace) is None:  # else nothing can be tried in it
        rows += sandbox_rows(await backend_reports(workspace))
    rows += _rule_rows(workspace, loaded)
    async with aclosing(IdleWorkspace(workspace, loaded.config)) as idle:
        rows += [row for each in WorkspaceFeatures(idle) for row in await each.check(is_offline=arguments.offline)]
    if not arguments.offline:
        rows += await _server_rows(loaded)
    print_report([asdict(row) for row in rows], map(_row_text, rows), is_json=arguments.json)
    states = {row.state for row in rows}
    return 2 if FAILURE in states else 1 if WARNING in states else 0


def _row_text(row: CheckRow) -> str:
    hint = f"\n{'':15}{sanitize_line(row.hint)}" if row.hint else ""
    return f"{_SIGNS[row.state]} {row.name:<12} {sanitize_line(row.text)}{hint}"


def _row(name: str, text: str, hint: str, *, is_well: bool, otherwise: str = WARNING) -> CheckRow:
    """Return a row that has a hint only where something is not well."""
    return CheckRow(name, OK if is_well else otherwise, text, "" if is_well else hint)


def _program_rows() -> Iterable[CheckRow]:
    is_fit = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield _row("python", platform.python_version(), "lmtui runs on Python 3.11 to 3.13.", is_well=is_fit, otherwise=FAILURE)
    is_shown, hint = os.environ.get("TERM", "dumb") != "dumb", 'Use `lmtui run "TASK"`, or a terminal with TERM set.'
    yield _row("terminal", os.environ.get("TERM", "none"), hint, is_well=is_shown)
    yield CheckRow("tokens", OK, f"counted by {counter_name()}")
    if unread := sorted(_NOT_READ & os.environ.keys()):
        hint = "Other programs read them: see `lmtui help coming-from`."
        yield CheckRow("environment", NONE, f"set, but not read by lmtui: {', '.join(unread)}", hint)
    for name, folder in (("settings", config_dir()), ("state", state_dir())):
        is_writable = os.access(_nearest(folder), os.W_OK)
        yield _row(name, str(folder), "Set LMTUI_HOME to a folder that can be written.", is_well=is_writable)


# Settings of the programs that lmtui succeeds: what is set and not read here is named.
_NOT_READ = {
    "AGENT_CERT", "AGENT_HOST", "AGENT_KEY", "AGENT_PORT", "AGENT_TOKEN", "ARTIFACT_SCAN_WINDOW", "BLOCKED_COMMANDS",
    "BRIEF_DATA_BUDGET", "DB_PATH", "ENABLE_PLAN_ENFORCEMENT", "ENABLE_TODO_TRACKING", "KEEP_RECENT_MESSAGES", "LAO_CONFIG",
    "LAO_OTEL_ENDPOINT", "LM_STUDIO_BASE_URL", "MAX_FILE_READ", "MAX_GREP_RESULTS", "MAX_LS_ENTRIES",
    "MAX_SUB_AGENT_ITERATIONS", "MAX_TOOL_OUTPUT", "PLANS_DIR", "REQUIRE_WORKSPACE", "SHELL_WORKSPACE_ONLY",
    "THINKING_MAX_TOKENS", "TOTAL_RAM_GB", "WORKSPACE_ROOT",
}  # fmt: skip


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    return folder if folder.exists() or folder == folder.parent else _nearest(folder.parent)


def _workspace_rows(workspace: Path, loaded: Loaded) -> Iterable[CheckRow]:
    problem = workspace_problem(workspace)
    if isinstance(problem, UsageError):
        yield CheckRow("workspace", FAILURE, str(problem), problem.hint)
    else:
        names = list_plain(workspace, f"{WORKSPACE_FOLDER}/sessions")
        count = sum(name.endswith(".jsonl") for name, _ in names)
        yield CheckRow("workspace", OK, f"{workspace}, {pluralize(count, 'session')}")
    if unasked := unasked_roles(parse_roles(loaded.config.roles)):
        yield CheckRow("roles", NONE, unasked.removeprefix("roles: "))
    for folder, free in free_space(workspace).items():
        hint = "Free some: checkpoints, overlays and downloaded packages need it."
        text = f"{size_text(free) or 'nothing'} free at {sanitize_line(str(folder))}"
        yield _row("disk", text, hint, is_well=free >= _LEAST_FREE)
    if loaded.ignored:
        hint = "To review it, run `lmtui trust`, or put it into your own config.toml."
        yield CheckRow("trust", WARNING, f"ignored until you trust this folder: {', '.join(loaded.ignored)}", hint)
    yield from (CheckRow("settings", NONE, sanitize_line(text)) for text in loaded.not_used)


def _model_rows(loaded: Loaded, servers: Sequence[ServerFound]) -> Iterable[CheckRow]:
    """Tell which models that the settings name the first server, which is the one in use, or its pool does not have."""
    used = [each for each in servers if each.pool] or servers[:1]
    models = tuple(model for server in used for model in server.models)
    if lacks := lacking_models(loaded.config, replace(servers[0], models=models), loaded.config.model):
        names = ", ".join(model.name for model in models[:_MOST_NAMED])
        yield CheckRow("models", WARNING, f"{servers[0].url} has no {lacks}", f"It has {sanitize_line(names)}.")


def _rule_rows(workspace: Path, loaded: Loaded) -> Iterable[CheckRow]:
    try:
        rules, problems = rules_in_force(loaded.config, workspace), kept_problems(workspace)
    except (ConfigError, UsageError) as error:
        yield CheckRow("rules", FAILURE, str(error), error.hint)
        return
    yield from (CheckRow("rules", WARNING, problem) for problem in problems)
    yield CheckRow("rules", OK if rules else NONE, pluralize(len(rules), "permission rule") if rules else "no permission rules")
    if unused := [sanitize_line(str(rule)) for rule in unmatched(rules, workspace)]:
        hint = "If one should match, check its spelling; docs/permissions.md describes the patterns."
        yield CheckRow("rules", NONE, f"match no file here: {', '.join(unused)}", hint)


def sandbox_rows(reports: Sequence[BackendReport]) -> list[CheckRow]:
    """Return what the backends are worth together: one that isolates is enough, the others are told without alarm."""
    rows = [
        CheckRow(found.name, OK, f"works, ready in {found.start_ms} ms")
        if found.works
        else CheckRow(found.name, NONE, f"not available: {found.why_not}")
        for found in reports
    ]
    working = {found.name for found in reports if found.works}
    fixes = " ".join(dict.fromkeys(found.fix for found in reports if found.name in FULL and found.fix))
    if working.isdisjoint((*FULL, "landlock")):
        rows.append(CheckRow("sandbox", FAILURE, "no sandbox works: lmtui runs only with --sandbox process", fixes))
    elif working.isdisjoint(FULL):
        weaker = "only landlock works: it isolates less, and each command asks unless you name it (--sandbox landlock)"
        rows.append(CheckRow("sandbox", WARNING, weaker, fixes))
    return rows


async def _server_rows(loaded: Loaded) -> list[CheckRow]:
    try:
        servers = await Servers(loaded.config).find_answering()
    except UsageError as error:
        return [CheckRow("models", FAILURE, str(error), error.hint)]
    if silent_address(loaded.config, servers):
        return [CheckRow("models", WARNING, f"no model server answers at {loaded.config.url}", _OTHER_SERVER)]
    if not servers:
        hint = "Start LM Studio, Ollama, llama.cpp or vLLM, or name an address (LLM_URL, `url`); `lmtui demo` needs none."
        return [CheckRow("models", WARNING, "no model server answers", hint)]
    return [*map(_server_row, servers), *_model_rows(loaded, servers), *memory_rows(loaded, servers[0])]


def _server_row(server: ServerFound) -> CheckRow:
    hint = KEY_HINT if server.note in KEY_NOTES else _OTHER_SERVER
    loaded = [f"{sanitize_line(model.name)} ({window_words(model)})" for model in server.chat_models if model.is_loaded]
    offer = pluralize(len(server.chat_models), "model") + (f", loaded: {', '.join(loaded)}" if loaded else "")
    text = f"{next(server_lines([replace(server, models=())]))}  {offer}"
    return _row("models", text, hint, is_well=bool(server.models) and server.note not in KEY_NOTES)


def memory_rows(loaded: Loaded, server: ServerFound) -> Iterable[CheckRow]:
    """Tell whether the largest model that the settings name fits, where it runs on this machine."""
    model = largest_model(loaded.config, server)
    if model is None or urlsplit(server.url).hostname not in ("localhost", "127.0.0.1", "::1"):
        return
    total = psutil.virtual_memory().total
    text = f"{sanitize_line(model.name)} is {size_text(model.size_bytes)}, this machine has {size_text(total)} of memory"
    hint = "Use a smaller model or quantisation, unless a graphics card has memory for it."
    yield _row("memory", text, hint, is_well=model.size_bytes <= _MOST_MEMORY * total)
