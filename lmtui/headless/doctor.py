"""`lmtui doctor`: everything that lmtui needs, row by row, each with what to do about it."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lmtui.app.checks import FULL, BackendReport, backend_reports, tokenizer_name, workspace_problem
from lmtui.app.extensions import hook_files, hooks_hold, prompt_files, read_agents, read_guidance, read_skills, unread_files
from lmtui.app.folder_rules import kept_problems, rules_in_force, unmatched
from lmtui.app.mcp_report import look_at_servers, named_servers
from lmtui.app.reports import find_models
from lmtui.config import Loaded
from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.hosts import is_same_server
from lmtui.core.mcp import ServerState
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.servers import ServerFound, window_words
from lmtui.core.skills import Skill, SkillState
from lmtui.headless.mcp_report import BROKEN, WAIT_S, state_words
from lmtui.paths import config_dir, sessions_dir, state_dir, themes_dir

OK, NONE, WARNING, FAILURE = "ok", "none", "warning", "failure"
_UNREAD = "Of other agents; `lmtui help coming-from` says what is read."
_PLAIN = "Put a plain file in its place: links are not followed."
_SIGNS = {OK: "✓", NONE: "–", WARNING: "!", FAILURE: "✗"}
_ENTRY = "docs/mcp.md lists the keys of an entry; `lmtui mcp list` names its tools."
_TRUST = "`lmtui config trust` shows it and asks; until then it does not hold."
_AGENT_FORM = "It begins with ---, name: and description: lines, and --- again; its instructions follow."
_MCP = {ServerState.READY: OK, ServerState.OFF: NONE, ServerState.REFUSED: NONE}


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One thing that was looked at: it works, is not there (and need not be), wants a look or your yes, or is broken."""

    name: str
    state: str
    text: str
    hint: str = ""


async def report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Print every row; 0 all well, 1 warnings, 2 failures."""
    rows = [*_program_rows(), *_workspace_rows(workspace, loaded), *await _sandbox_rows(workspace)]
    rows += _rule_rows(workspace, loaded)
    rows += await _instruction_rows(workspace)
    rows += await _skill_rows(workspace)
    rows += await _agent_rows(workspace)
    rows += _hook_rows(workspace)
    rows += _named_mcp_rows(workspace) if arguments.offline else await _mcp_rows(workspace, loaded)
    if not arguments.offline:
        rows += await _server_rows(loaded)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
    else:
        for row in rows:
            print(f"{_SIGNS[row.state]} {row.name:<12} {row.text}")
            if row.hint:
                print(f"{'':15}{row.hint}")
    states = {row.state for row in rows}
    return 2 if FAILURE in states else 1 if WARNING in states else 0


def _program_rows() -> Iterable[CheckRow]:
    version = platform.python_version()
    is_fit = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield CheckRow("python", OK if is_fit else FAILURE, version, "" if is_fit else "lmtui runs on Python 3.11 to 3.13.")
    is_shown = os.environ.get("TERM", "dumb") != "dumb"
    hint = "" if is_shown else 'Use `lmtui run "TASK"`, or a terminal with TERM set.'
    yield CheckRow("terminal", OK if is_shown else WARNING, os.environ.get("TERM", "none"), hint)
    themes = len(list(themes_dir().glob("*.toml")))
    yield CheckRow("themes", OK if themes else FAILURE, f"{themes} themes", "" if themes else "The installation is incomplete.")
    yield CheckRow("tokens", OK, f"counted by {tokenizer_name()}")
    for name, folder in (("settings", config_dir()), ("state", state_dir())):
        is_writable = os.access(_nearest(folder), os.W_OK)
        hint = "" if is_writable else "Set LMTUI_HOME to a folder that can be written."
        yield CheckRow(name, OK if is_writable else WARNING, str(folder), hint)


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    return folder if folder.exists() or folder == folder.parent else _nearest(folder.parent)


def _workspace_rows(workspace: Path, loaded: Loaded) -> Iterable[CheckRow]:
    problem = workspace_problem(workspace)
    if isinstance(problem, UsageError):
        yield CheckRow("workspace", FAILURE, str(problem), problem.hint)
    else:
        count = len(list(sessions_dir(workspace).glob("*.jsonl"))) if sessions_dir(workspace).is_dir() else 0
        yield CheckRow("workspace", OK, f"{workspace}, {pluralize(count, 'session')}")
    if loaded.ignored:
        hint = "Put them into your own config.toml if you want them: a folder's own files may only tighten."
        yield CheckRow("trust", WARNING, f"not taken from this folder: {', '.join(loaded.ignored)}", hint)


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


async def _sandbox_rows(workspace: Path) -> Iterable[CheckRow]:
    """None can be tried in a folder that cannot be a workspace."""
    return [] if workspace_problem(workspace) is not None else sandbox_rows(await backend_reports(workspace))


def sandbox_rows(reports: Sequence[BackendReport]) -> list[CheckRow]:
    """Return what the backends are worth together: one that isolates is enough, the others are told without alarm."""
    rows = [
        CheckRow(found.name, OK, f"works, ready in {found.start_ms} ms")
        if found.works
        else CheckRow(found.name, NONE, f"not here: {found.why_not}")
        for found in reports
    ]
    working = {found.name for found in reports if found.works}
    fixes = " ".join(dict.fromkeys(found.fix for found in reports if found.name in FULL and found.fix))
    if working.isdisjoint((*FULL, "landlock")):
        rows.append(CheckRow("sandbox", FAILURE, "no sandbox works: no shell, only file tools", fixes))
    elif working.isdisjoint(FULL):
        weaker = "only landlock works: it isolates less, and each command asks unless you name it (--sandbox landlock)"
        rows.append(CheckRow("sandbox", WARNING, weaker, fixes))
    return rows


async def _instruction_rows(workspace: Path) -> list[CheckRow]:
    found = await read_guidance(workspace)
    names = ", ".join(f"{sanitize_line(source.name)} {source.tokens:,} tokens" for source in found.sources)
    none = "none; AGENTS.md in this folder would be read"
    rows = [CheckRow("instructions", OK, names) if names else CheckRow("instructions", NONE, none)]
    if unread := await asyncio.to_thread(unread_files, workspace):
        rows.append(CheckRow("not read", NONE, ", ".join(unread), _UNREAD))
    return rows + [CheckRow("instructions", WARNING, sanitize_line(problem), _PLAIN) for problem in found.problems]


async def _skill_rows(workspace: Path) -> list[CheckRow]:
    """Tell how many skills there are and what they cost; one that is broken, or wrong in part, has its own row."""
    skills, tools, (_, tokens) = await read_skills(workspace)
    working = {"ready": _names(skills, SkillState.READY), "promoted tools": [tool.name for tool in tools if not tool.problem]}
    told = ", ".join(f"{len(names)} {kind}" for kind, names in working.items() if names)
    rows = [CheckRow("skills", OK, f"{told}; {tokens:,} tokens in each request") if told else CheckRow("skills", NONE, "none")]
    for state, mark, hint in (
        (SkillState.WAITING, WARNING, _TRUST),
        (SkillState.REFUSED, NONE, ""),
        (SkillState.HIDDEN, NONE, ""),
    ):
        if names := _names(skills, state):
            rows.append(CheckRow("skills", mark, f"{state}: {', '.join(names)}", hint))
    rows += [CheckRow("skills", FAILURE, skill.problem) for skill in skills if skill.state is SkillState.BROKEN]
    rows += [CheckRow("skills", WARNING, f"{skill.place}: {'; '.join(skill.warnings)}") for skill in skills if skill.warnings]
    return rows + [CheckRow("skills", FAILURE, f"{tool.name}: {tool.problem}") for tool in tools if tool.problem]


def _names(skills: Sequence[Skill], state: SkillState) -> list[str]:
    return [sanitize_line(skill.name) for skill in skills if skill.state is state]


async def _agent_rows(workspace: Path) -> list[CheckRow]:
    """Name the sub-agents that are defined, and what is wrong with them; nothing where there are none."""
    found, tokens = await read_agents(workspace)
    names = {state: ", ".join(each.name for each in found if each.state is state) for state in SkillState}
    ready = names[SkillState.READY]
    rows = [CheckRow("sub-agents", OK, f"{ready}; {tokens:,} tokens in each request")] if ready else []
    for state, mark, hint in ((SkillState.WAITING, WARNING, _TRUST), (SkillState.REFUSED, NONE, "")):
        rows += [CheckRow("sub-agents", mark, f"{state}: {names[state]}", hint)] if names[state] else []
    for each in found:
        if each.state is SkillState.HIDDEN:
            rows.append(CheckRow("sub-agents", NONE, f"{each.place} is hidden: {each.problem}"))
        elif each.problem:
            rows.append(CheckRow("sub-agents", WARNING, each.problem, _AGENT_FORM))
        if each.warnings:
            rows.append(CheckRow("sub-agents", WARNING, f"{each.place}: {'; '.join(each.warnings)}"))
    return rows


def _hook_rows(workspace: Path) -> list[CheckRow]:
    """Name each hook and each command of a file, and what is broken of them."""
    files = hook_files(workspace)
    is_trusted = hooks_hold(workspace, files)
    rows = [
        CheckRow("hooks", OK, f"{each.words}, from {each.source}")
        if each.is_own or is_trusted
        else CheckRow("hooks", WARNING, f"waits for your yes: {each.words}, from {each.source}", _TRUST)
        for each in files.entries
    ]
    rows += [CheckRow("hooks", FAILURE if files.is_unsafe else WARNING, sanitize_line(problem)) for problem in files.problems]
    prompts = prompt_files(workspace)
    usable = ", ".join(f"/{file.name}" for file in prompts if not file.problem)
    rows += [CheckRow("commands", OK, usable)] if usable else []
    for file in prompts:
        rows += [CheckRow("commands", WARNING, f"{file.source}: {why}") for why in (file.problem, *file.warnings) if why]
        rows += [] if file.may_run else [CheckRow("commands", WARNING, f"waits for your yes: what {file.source} runs", _TRUST)]
    return rows


async def _mcp_rows(workspace: Path, loaded: Loaded) -> list[CheckRow]:
    """Start each server and see its tools."""
    if workspace_problem(workspace) is not None:
        return []
    seen = await look_at_servers(workspace, loaded.config, WAIT_S)
    rows = [CheckRow("mcp", FAILURE, sanitize_line(problem)) for problem in seen.problems]
    for server in seen.servers:
        state = FAILURE if server.state in BROKEN else _MCP.get(server.state, WARNING)
        hint = _TRUST if server.state is ServerState.WAITING else server.hint if state == FAILURE else ""
        rows.append(CheckRow("mcp", state, f"{sanitize_line(server.name)}: {state_words(server)}", hint))
        rows += _mcp_warnings(server.name, server.warnings)
    return rows


def _named_mcp_rows(workspace: Path) -> list[CheckRow]:
    """Tell what the files name; nothing is started."""
    servers, problems = named_servers(workspace)
    rows = [CheckRow("mcp", FAILURE, sanitize_line(problem)) for problem in problems]
    for server in servers:
        text = f"{sanitize_line(server.name)}: {server.rests or 'configured'}, not started (--offline): {server.words}"
        is_waiting = server.rests is ServerState.WAITING
        rows.append(CheckRow("mcp", WARNING if is_waiting else NONE, text, _TRUST if is_waiting else ""))
        rows += _mcp_warnings(server.name, server.warnings)
    return rows


def _mcp_warnings(name: str, warnings: Sequence[str]) -> list[CheckRow]:
    return [CheckRow("mcp", WARNING, f"{sanitize_line(name)}: {sanitize_line(each)}", _ENTRY) for each in warnings]


async def _server_rows(loaded: Loaded) -> list[CheckRow]:
    try:
        servers = await find_models(loaded.config)
    except UsageError as error:
        return [CheckRow("models", FAILURE, str(error), error.hint)]
    wanted = loaded.config.url
    if wanted and not any(is_same_server(server.url, wanted) for server in servers):
        return [
            CheckRow(
                "models",
                WARNING,
                f"no model server answers at {wanted}",
                "Start it, or name another: LLM_URL, or `url` in your settings.",
            )
        ]
    if not servers:
        hint = "Start LM Studio, Ollama, llama.cpp or vLLM, or name an address (LLM_URL, `url`); `lmtui demo` needs none."
        return [CheckRow("models", WARNING, "no model server answers", hint)]
    return [
        CheckRow("models", OK if server.models else WARNING, f"{server.kind} at {server.url}: {_offer(server)}")
        for server in servers
    ]


def _offer(server: ServerFound) -> str:
    if server.note and not server.models:
        return sanitize_line(server.note)
    loaded = [f"{sanitize_line(model.name)} ({window_words(model)})" for model in server.chat_models if model.is_loaded]
    offer = f"{len(server.chat_models)} models" + (f", loaded: {', '.join(loaded)}" if loaded else "")
    return f"{offer}; {sanitize_line(server.note)}" if server.note else offer
