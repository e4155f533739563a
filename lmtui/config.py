"""Settings: defaults < user config.toml < workspace config.toml < .env < environment < flags, each value with its source.

A workspace is somebody else's until it is trusted: from its files only what is harmless or tightens is taken; the rest is
named, and waits.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import json
import logging
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.permissions.rules import Mode
from lmtui.core.roles import parse_roles
from lmtui.core.trust import TrustItem
from lmtui.paths import config_dir, workspace_dir
from lmtui.plain_files import NotPlain, read_plain
from lmtui.registry import FEATURES

MODES = tuple(str(mode) for mode in Mode)
SANDBOXES = ("auto", "docker", "podman", "bubblewrap", "landlock", "process")
CALL_FORMS = ("auto", "native", "text", "schema")
TOOL_SETS = ("auto", "full", "lean", "all")
SIGHTS = ("auto", "true", "false")
ONE_MODEL = ("auto", "on", "off")
NETWORKS = ("off", "proxy", "on")
NOTIFY_WAYS = ("auto", "osc9", "osc777", "bell", "off")
_MAX_TOML_BYTES, _MAX_DOTENV_BYTES = 1_048_576, 65_536
_REFERENCES = ("file:", "keyring:")  # where a key is, not the key itself


def _setting(
    default: Any,
    doc: str,
    *env: str,
    choices: tuple[str, ...] = (),
    at_least: float = -math.inf,
    at_most: float = math.inf,
    is_secret: bool = False,
    feature: str = "",
    label: str = "",
) -> Any:
    """Declare a setting: its default, a line of help, the names it has in the environment, and what it may be.

    One of a feature is a setting only as long as the feature is there.  `label` is its name in words, by default its own.
    """
    metadata = {
        "doc": doc, "env": env, "choices": choices, "at_least": at_least, "at_most": at_most, "is_secret": is_secret,
        "feature": feature, "label": label,
    }  # fmt: skip
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting with its value."""

    workspace: str = _setting("", "folder to work in if none is given; empty: the current folder", "WORKSPACE")
    url: str = _setting(
        "", "address of the model server; empty: look on the usual ports", "LLM_URL", "OPENAI_BASE_URL", label="Server URL"
    )
    model: str = _setting("", "name of the model; empty: the server's own default", "LLM_MODEL")
    api_key: str = _setting(
        "", "key for the model server, or file:PATH, or keyring:NAME; local servers need none", "LLM_API_KEY",
        "OPENAI_API_KEY", is_secret=True, label="API key",
    )  # fmt: skip
    temperature: float = _setting(0.65, "sampling temperature, 0 to 2", "LLM_TEMPERATURE", "TEMPERATURE", at_least=0, at_most=2)
    seed: int = _setting(-1, "sampling seed; -1: none", "LLM_SEED")
    top_p: float = _setting(0.0, "nucleus sampling, 0 to 1; 0: the server's default", "LLM_TOP_P", at_least=0, at_most=1)
    repeat_penalty: float = _setting(
        0.0, "repetition penalty, about 1.05 to 1.2; 0: the server's default", "LLM_REPEAT_PENALTY", at_least=0, at_most=2,
        label="Repetition penalty",
    )  # fmt: skip
    call_form: str = _setting(
        "auto", "how the model is asked to call tools; auto: by what is known about it", "LLM_CALL_FORM", choices=CALL_FORMS,
        label="Tool call format",
    )  # fmt: skip
    tools: str = _setting(
        "auto", "tools for the model; auto: full, or lean in small windows; all: Python too", "LMTUI_TOOLS",
        choices=TOOL_SETS, label="Tools for the model",
    )  # fmt: skip
    roles: tuple[str, ...] = _setting(
        (), "models for single roles, such as planner: qwen3-14b temperature=0.2", label="Models by role"
    )
    vision: str = _setting(
        "auto", "whether the model sees pictures; auto: as its server reports", "VISION_ENABLED", choices=SIGHTS,
        label="Model sees images",
    )  # fmt: skip
    one_model: str = _setting(
        "auto", "on LM Studio, unload other large models before loading one; auto: unless roles name some",
        choices=ONE_MODEL, label="One model at a time",
    )  # fmt: skip
    memory_gate_ratio: float = _setting(
        0.75, "share of an unloaded model's size that must be free again before the next one is loaded; 0: do not wait",
        at_least=0, at_most=1, label="Memory to free",
    )  # fmt: skip
    memory_gate_timeout_s: float = _setting(
        60.0, "maximum wait for this memory in seconds; it also ends after 10 s without progress", at_least=0,
        label="Memory wait limit",
    )  # fmt: skip
    memory_gate_swap_mb: int = _setting(
        512, "end this wait if swap use grows by more than this many MB; 0: ignore swap", at_least=0, label="Swap growth limit",
    )  # fmt: skip
    context_tokens: int = _setting(
        0, "the model's context window in tokens, used if the server does not report one; 0: assume 8,192", at_least=0,
        label="Context size",
    )  # fmt: skip
    slots: int = _setting(
        0, "parallel requests that the server handles; 0: as the server reports, else 1", "LLM_SLOTS", at_least=0,
        label="Parallel requests",
    )  # fmt: skip
    max_tokens: int = _setting(
        -1, "longest answer in tokens; -1: the server's own limit", "LLM_MAX_TOKENS", "AGENT_MAX_TOKENS", label="Longest answer"
    )
    stall_timeout_s: float = _setting(
        560.0, "seconds that a server may be silent (before the first token, attended sessions only warn); 0: no limit",
        "LLM_TIMEOUT", at_least=0, label="Server silence limit",
    )  # fmt: skip
    max_retries: int = _setting(3, "retries for transient errors", "LLM_MAX_RETRIES", at_least=0, label="Retries")
    retry_delay_s: float = _setting(
        0.5, "seconds before the first retry; each further one waits twice as long", "LLM_RETRY_DELAY", at_least=0,
        label="First retry delay",
    )  # fmt: skip
    max_iterations: int = _setting(500, "requests in one turn", "MAX_ITERATIONS", at_least=1, label="Requests per turn")
    max_same_tool_streak: int = _setting(
        8, "stop the turn when most of the last N calls are identical, with the same result; 0: never",
        "MAX_SAME_TOOL_STREAK", at_least=0, label="Stop after identical calls",
    )  # fmt: skip
    max_no_progress_iters: int = _setting(
        15, "stop the turn after this many steps in a row without progress; 0: never", "MAX_NO_PROGRESS_ITERS", at_least=0,
        label="Stop without progress",
    )  # fmt: skip
    max_errors: int = _setting(
        5, "stop the turn after this many steps in a row in which every call fails; 0: never", "MAX_ERRORS", at_least=0,
        label="Stop after failed steps",
    )  # fmt: skip
    max_empty_iterations: int = _setting(
        5, "stop the turn after this many empty answers in a row; 0: never", "MAX_EMPTY_ITERATIONS", at_least=0,
        label="Stop after empty answers",
    )  # fmt: skip
    sub_agents: str = _setting(
        "on", "whether the model may hand parts of its work to sub-agents", "ENABLE_SUB_AGENTS", choices=("on", "off")
    )
    mcp: str = _setting(
        "on", "whether MCP servers are started", "ENABLE_MCP", choices=("on", "off"), feature="mcp", label="MCP servers"
    )
    mcp_serve_tools: str = _setting("read", "tools of `lmtui mcp serve`: read, all, or names with commas", feature="mcp")
    hooks: str = _setting("on", "whether hooks run", "ENABLE_HOOKS", choices=("on", "off"), feature="hooks")
    append_system_prompt: str = _setting(
        "", "extra instructions for the model, added to those of the folder", feature="instructions", label="Extra instructions"
    )
    agent_max_depth: int = _setting(
        3, "how many levels of sub-agents are allowed", "AGENT_MAX_DEPTH", at_least=0, at_most=5, label="Sub-agent levels"
    )
    agent_max_iterations: int = _setting(
        60, "requests that one sub-agent may make", "AGENT_MAX_ITERATIONS", at_least=1, label="Sub-agent requests"
    )
    agent_max_tokens: int = _setting(
        0, "tokens that one sub-agent may use; 0: no limit", "SUB_AGENT_MAX_TOKENS", at_least=0, label="Sub-agent tokens"
    )
    agent_timeout_s: float = _setting(
        0.0, "seconds that one sub-agent may take; 0: no limit", at_least=0, label="Sub-agent time limit"
    )
    keep_agents: str = _setting(
        "off", "keep the briefs and results of sub-agents in .lmagent/agents", choices=("on", "off"),
        label="Keep sub-agent results",
    )  # fmt: skip
    compact_at: int = _setting(
        80_000, "compact above this many tokens, however large the window is; 0: only by the window",
        "SUMMARIZATION_THRESHOLD", at_least=0, label="Compact above",
    )  # fmt: skip
    summaries: str = _setting(
        "on", "let the model summarize what is compacted", "ENABLE_SUMMARIZATION", choices=("on", "off"),
        label="Summarize when compacting",
    )  # fmt: skip
    titles: str = _setting(
        "auto",
        "let a model name a session after its first turn; auto: if a role `title` is set or the server takes parallel requests",
        choices=("auto", "on", "off"), label="Session titles",
    )  # fmt: skip
    verify: str = _setting(
        "auto", "check changes: auto finds the project's own commands, off runs none; else the command that decides, or "
        "profile:NAME", "LMTUI_VERIFY", feature="checks", label="Verify changes",
    )  # fmt: skip
    check_profiles: tuple[str, ...] = _setting(
        (), "named sets of commands, such as full: make test, full build: make, full lint: ruff check {files}", feature="checks"
    )
    goal: str = _setting("", "goal of a new session: a command that has to exit with 0 before a turn may end", feature="checks")
    lint_command: str = _setting(
        "", "lint command for changed files ({files}); empty: as the project is configured", feature="checks",
        label="Lint command",
    )  # fmt: skip
    gate: str = _setting(
        "standard", "findings that block the end of a turn; standard: critical and major ones, strict: all",
        choices=("off", "standard", "strict"), feature="checks", label="Gate",
    )  # fmt: skip
    review: str = _setting(
        "notes", "what to do with the reviewer's findings: show them as notes, or let the gate decide",
        choices=("off", "notes", "gate"), feature="checks", label="Reviews",
    )  # fmt: skip
    critics: int = _setting(
        0, "number of critics (1, 3 or 5) that vote with the reviewer if review is gate; the majority decides, a tie rejects",
        at_least=0, at_most=5, feature="checks",
    )  # fmt: skip
    critic_models: tuple[str, ...] = _setting(
        (), "models of the critics, used in turn; empty: the reviewer's model", feature="checks", label="Critic models"
    )
    language_servers: str = _setting(
        "on", "tell the model about new errors that an installed language server finds", choices=("on", "off"),
        feature="checks", label="Language servers",
    )  # fmt: skip
    check_timeout_s: int = _setting(
        180, "maximum seconds for one check; a slower one is not repeated", at_least=1, feature="checks",
        label="Check time limit",
    )  # fmt: skip
    budget: str = _setting("", "budget of a new session, such as 3h 200 steps 1.5M tokens; empty: no limit")
    timeout_s: float = _setting(0.0, "seconds that a turn may take; 0: no limit", at_least=0, label="Turn time limit")
    mode: str = _setting(
        "normal", "when to ask: manual, normal, auto, try (changes wait in an overlay), or plan (read only)",
        "PERMISSION_MODE", choices=MODES, label="Permission mode",
    )  # fmt: skip
    allow: tuple[str, ...] = _setting((), "permission rules that allow, such as Shell(git status*)", label="Allow rules")
    ask: tuple[str, ...] = _setting((), "permission rules that ask in every mode, such as Shell(docker *)", label="Ask rules")
    deny: tuple[str, ...] = _setting((), "permission rules that forbid, such as Write(secrets/**)", label="Deny rules")
    sandbox: str = _setting("auto", "where commands run", "LMTUI_SANDBOX", choices=SANDBOXES)
    network: str = _setting(
        "off", "network for commands: none, single hosts by a proxy, or all of it", "LMTUI_NETWORK", choices=NETWORKS
    )
    network_hosts: tuple[str, ...] = _setting(
        (), "hosts that the proxy lets through unasked, such as pypi.org or .pythonhosted.org", label="Network hosts"
    )
    sandbox_runtime: str = _setting("", "runtime of the container engine, such as runsc; empty: its default")
    toolchains: tuple[str, ...] = _setting(
        (), "folders of tools (pyenv, cargo, nvm) that commands may read", label="Tool folders"
    )
    add_dirs: tuple[str, ...] = _setting(
        (), "other folders that the agent may read; DIR:rw allows changes", label="Added folders"
    )
    pass_env: tuple[str, ...] = _setting((), "environment variables that are passed to commands", label="Passed variables")
    command_timeout_s: int = _setting(120, "default time limit of a command in seconds", at_least=1, label="Command time limit")
    command_max_timeout_s: int = _setting(
        600, "longest time limit in seconds that the model may request", at_least=1, label="Longest time limit"
    )
    command_memory_mb: int = _setting(
        0, "memory of a command in MB; 0: half of the machine's", at_least=0, label="Command memory (MB)"
    )
    command_cores: int = _setting(0, "processor cores for commands; 0: all", at_least=0, label="Command cores")
    command_processes: int = _setting(1024, "processes and threads of all commands together", at_least=16)
    command_tmp_mb: int = _setting(
        0, "size of the private /tmp in MB; 0: a quarter of the memory, at most 4096", at_least=0, label="Size of /tmp (MB)"
    )
    command_file_mb: int = _setting(4096, "largest file that a command may write, in MB", at_least=1, label="Largest file (MB)")
    image: str = _setting("lmtui-sandbox:3", "Docker image of the sandbox", "LMTUI_IMAGE", label="Sandbox image")
    scheduler_interval_s: float = _setting(
        60.0, "maximum seconds between job checks", "SCHEDULER_POLL_INTERVAL", at_least=1, feature="jobs",
        label="Job check interval",
    )  # fmt: skip
    inbox: str = _setting(
        "off", "create jobs from task files that other programs write to .lmagent/inbox", choices=("off", "on"),
        feature="jobs", label="Job inbox",
    )  # fmt: skip
    task_attempts: int = _setting(3, "failed attempts at one stage before a task fails", at_least=1, feature="pipeline")
    task_tries: int = _setting(1, "parallel attempts at each task; the checks choose", at_least=1, feature="pipeline")
    phase_batch: int = _setting(0, "tasks coded before they are reviewed; 0: one per slot", at_least=0, feature="pipeline")
    plan_commits: str = _setting("on", "commit each task of a plan", choices=("off", "on", "trailers"), feature="pipeline")
    plan_contracts: str = _setting("off", "write a test for tasks without checks", choices=("off", "on"), feature="pipeline")
    otel_endpoint: str = _setting("", "OTLP/HTTP address for traces; empty: off", "LMTUI_OTEL_ENDPOINT", feature="otel")
    host_folders: tuple[str, ...] = _setting(
        (), "folders that clients of the HTTP API may work in, next to those that you open here", label="API folders"
    )
    host_http: str = _setting(
        "", "address of the HTTP API, such as 127.0.0.1:8765; empty: only its own socket", label="API address"
    )
    host_names: tuple[str, ...] = _setting((), "further names of this machine in requests to the API", label="API host names")
    host_origins: tuple[str, ...] = _setting(
        (), "web pages that may use the API, such as https://chat.example", label="API origins"
    )
    host_certificate: str = _setting("", "PEM file with the certificate and key of the API", label="API certificate")
    host_approval_wait_s: float = _setting(
        300.0, "seconds that a chat client's question waits for an answer in lmtui before it is denied", at_least=0,
        label="API approval limit",
    )  # fmt: skip
    notify: str = _setting(
        "auto", "how to notify you that a session is done or waits while you are in another window", "LMTUI_NOTIFY",
        choices=NOTIFY_WAYS, label="Notifications",
    )  # fmt: skip
    theme: str = _setting("", "color theme; empty: the default theme", "LMTUI_THEME")

    @property
    def has_sub_agents(self) -> bool:
        """Tell whether the model may send sub-agents."""
        return self.sub_agents == "on" and self.agent_max_depth > 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, where each came from (all sources of a list), and what the workspace's files do not get.

    `waiting` are those of its settings that hold once the folder is trusted, `digest` the SHA-256 (hex) of them with their
    values: an answer holds for just that.
    """

    config: Config
    sources: Mapping[str, str]
    ignored: tuple[str, ...] = ()
    waiting: tuple[TrustItem, ...] = ()
    digest: str = ""

    def has_flag(self, *names: str) -> bool:
        """Tell whether the command line gives one of these settings."""
        return any(self.sources[name] == "flag" for name in names)


SETTINGS = {each.name: each for each in fields(Config) if each.metadata["feature"] in ("", *FEATURES)}
MODEL_SETTINGS = ("url", "model")
_HARMLESS = frozenset({
    "theme", "temperature", "top_p", "repeat_penalty", "seed", "max_tokens", "call_form", "tools", "vision", "deny", "ask",
})  # fmt: skip
_ON, _OFF = ("true", "yes", "1"), ("false", "no", "0")  # other words for what is on or off
_MODE_RANK = {"plan": 0, "manual": 1, "normal": 2, "try": 3, "auto": 4}
_STRICTER: Mapping[str, Callable[[Any, Any], bool]] = {
    "mode": lambda new, now: _MODE_RANK[new] < _MODE_RANK[now],
    "max_iterations": lambda new, now: new > 0 and (new < now or now <= 0),  # 0 is no limit
    "mcp": lambda new, _: new == "off",
    "sub_agents": lambda new, _: new == "off",
    "network": lambda new, now: NETWORKS.index(new) < NETWORKS.index(now),
}


def setting_flags(given: Iterable[str]) -> dict[str, Any]:
    """Return settings that were given as `KEY=VALUE`, the value as TOML has it or as plain text.

    Raises:
        ConfigError: no such setting, or no value.
    """
    flags: dict[str, Any] = {}
    for text in given:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, n=1)
            hint = f"Did you mean {near[0]}?" if near else "`lmtui config` lists the settings."
            raise ConfigError(f"-c {text!r} is not a setting and its value, as in -c seed=7", hint)
        try:
            flags[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            flags[name] = value
        flags[name] = tuple(flags[name]) if isinstance(flags[name], list) else flags[name]
    return flags


def load_config(workspace: Path, environ: Mapping[str, str], flags: Mapping[str, Any], *, trusted: str = "") -> Loaded:
    """Read every source and return the settings in force.

    Args:
        workspace: whose files are read.
        environ: the environment.
        flags: values from the command line, None for those not given.
        trusted: the digest of what the user trusts of this workspace; empty trusts nothing.

    Raises:
        ConfigError: a value cannot be; the text names the setting, the source and what is possible.
    """
    user = {str(config_dir() / "config.toml"): read_settings(config_dir() / "config.toml")}
    outer = {
        "environment": _from_environ(environ, "the environment"),
        "flag": {name: convert(name, value, "a flag") for name, value in flags.items() if value is not None},
    }
    ignored: list[str] = []
    own = dict(_own_files(workspace, ignored))
    loose = _loosening(user, own)
    digest = hashlib.sha256(json.dumps(loose, sort_keys=True).encode()).hexdigest() if loose else ""
    if not loose or trusted != digest:
        ignored = [f"{name} in {source}" for source, names in loose.items() for name in names] + ignored
        own = {source: _without(found, loose.get(source, {})) for source, found in own.items()}
    values, sources = _merged(user | own | outer)
    waiting = tuple(
        TrustItem("permission rule" if name == "allow" else "setting", source, f"{name} = {shown(name, value)}")
        for source, names in loose.items()
        for name, value in names.items()
    )
    return Loaded(Config(**values), sources, tuple(ignored), waiting, digest)


_Sources = Mapping[str, Mapping[str, Any]]


def _merged(found: _Sources) -> tuple[dict[str, Any], dict[str, str]]:
    """Return values and where they came from; a later source wins, lists grow."""
    values: dict[str, Any] = {}
    sources = dict.fromkeys(SETTINGS, "default")
    for source, settings in found.items():
        for name, value in settings.items():
            before = values.get(name, ()) if isinstance(value, tuple) else ()
            values[name] = (*before, *value) if before else value
            sources[name] = f"{sources[name]} + {source}" if before else source
    return values, sources


def _without(found: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


def _loosening(user: _Sources, own: _Sources) -> dict[str, dict[str, Any]]:
    """Return what an untrusted workspace may not set, by source."""
    values, _ = _merged(user)
    loose: dict[str, dict[str, Any]] = {}
    for source, found in own.items():
        names = {name: value for name, value in found.items() if not _tightens(name, value, values)}
        if names:
            loose[source] = names
        values |= {name: value for name, value in found.items() if name not in names}
    return loose


def _own_files(workspace: Path, ignored: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the workspace's own files say, by source.

    A broken config.toml is an error, for it may forbid something; `.env` is also other programs', so what cannot be in it is
    named in `ignored` and stops nothing.
    """
    yield ".lmagent/config.toml", read_settings(workspace_dir(workspace) / "config.toml")
    if "inbox" in SETTINGS and (workspace_dir(workspace) / "inbox").is_dir():
        yield ".lmagent/inbox", {"inbox": "on"}  # a folder that has one wants its tasks run: that waits for the user's word
    pairs = _dotenv(workspace)
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        key = next((key for key in setting.metadata["env"] if pairs.get(key, "").strip()), None)
        if key is None:
            continue
        try:
            found[name] = convert(name, pairs[key].strip(), f"{key} in .env")
        except ConfigError:
            ignored.append(f"{key} in .env")
    yield ".env", found


def _tightens(name: str, value: Any, values: Mapping[str, Any]) -> bool:
    """Tell whether an untrusted workspace may set this."""
    if name in _HARMLESS:
        return True
    stricter = _STRICTER.get(name)
    return stricter is not None and stricter(value, values.get(name, SETTINGS[name].default))


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file, nothing where there is none.

    Raises:
        ConfigError: it cannot be read, or says what cannot be.
    """
    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > _MAX_TOML_BYTES):
            raise ConfigError(f"{path} cannot be read: it is not a regular file, or too large", "Fix it or delete it.")
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "Fix it or delete it.") from error
    for name in found:
        if name not in SETTINGS:
            close = difflib.get_close_matches(name, SETTINGS, n=1)
            hint = f"Did you mean {close[0]}?" if close else "`lmtui config show` lists the settings."
            raise ConfigError(f"{path} has no setting called {name!r}", hint)
    return {name: convert(name, value, str(path)) for name, value in found.items()}


def _from_environ(environ: Mapping[str, str], source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        key = next((key for key in setting.metadata["env"] if environ.get(key, "").strip()), None)
        if key is not None:
            found[name] = convert(name, environ[key].strip(), f"{key} in {source}")
    return found


def _as_choice(value: Any, choices: tuple[str, ...]) -> Any:
    """Return a truth, as TOML and the environment write it, as the choice that it means."""
    word = str(value).strip().lower() if isinstance(value, bool | str) else value
    if word in choices or "on" not in choices:
        return word if isinstance(value, bool) else value
    return "on" if word in _ON else "off" if word in _OFF else value


def convert(name: str, value: Any, source: str) -> Any:
    """Return a setting's value in its own type.

    Raises:
        ConfigError: it cannot be that.
    """
    setting = SETTINGS[name]
    choices = setting.metadata["choices"]
    if choices:
        value = _as_choice(value, choices)
    if choices and value not in choices:
        raise ConfigError(f"{name} cannot be {value!r} ({source})", f"It is one of {', '.join(choices)}.")
    kind = str(setting.type)
    try:
        converted = _KINDS[kind][1](value)
        if name == "roles":
            _check_words(parse_roles, converted, source)
        elif name in ("budget", "check_profiles", "url") and converted:
            from lmtui.core import budgets, hosts, project_checks  # noqa: PLC0415  (few set one, and every start is timed)

            parsers = {
                "budget": budgets.whole_budget, "check_profiles": project_checks.parse_profiles, "url": hosts.base_url,
            }  # fmt: skip
            _check_words(parsers[name], converted, source if name == "check_profiles" else f"{name}, {source}")
        elif name == "critics" and converted and converted % 2 == 0:
            raise ConfigError(f"critics cannot be {converted} ({source})", "Use 1, 3 or 5, so that they cannot tie, or 0.")
        if setting.metadata["is_secret"]:
            converted = _key(converted)
        elif kind in ("int", "float") and not setting.metadata["at_least"] <= converted <= setting.metadata["at_most"]:
            raise ValueError
        return converted
    except (ValueError, TypeError, OverflowError) as error:
        told = "that" if setting.metadata["is_secret"] else repr(value)
        hint = f"It is {_KINDS[kind][0]}: {setting.metadata['doc']}."
        raise ConfigError(f"{name} cannot be {told} ({source})", hint) from error


def _check_words(parse: Callable[[Any], object], value: object, source: str) -> None:
    try:
        _ = parse(value)
    except (ConfigError, UsageError) as error:
        raise ConfigError(f"{error} ({source})", error.hint) from error


def _key(value: str) -> str:
    """Return a key without the line break that files end with; it goes into a header, so nothing else may be in it."""
    key = value.strip()
    if not key.isascii() or not all(char.isprintable() for char in key):
        raise ValueError
    return key


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(_text(each) for each in value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    return int(value)


_KINDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "str": ("a text", _text),
    "int": ("a whole number", _whole),
    "float": ("a number", _number),
    "tuple[str, ...]": ("a list of texts", _texts),
}


def _dotenv(workspace: Path) -> dict[str, str]:
    """Return the pairs of a workspace's `.env`; lines that cannot be read are skipped."""
    try:
        data = read_plain(workspace, ".env", _MAX_DOTENV_BYTES + 1)
    except (NotPlain, OSError):
        return {}
    if data is None or len(data) > _MAX_DOTENV_BYTES:
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415  (few workspaces have a .env, and every start is timed)

    logging.getLogger("dotenv").setLevel(logging.ERROR)  # it warns of each line that it cannot read
    pairs = dotenv_values(stream=io.StringIO(data.decode("utf-8-sig", "replace")), interpolate=False)
    return {name: value for name, value in pairs.items() if value is not None}


def shown(name: str, value: Any) -> str:
    """Return a value for a person: secrets as dots (not where they are kept), nothing as a dash."""
    if SETTINGS[name].metadata["is_secret"] and value and not str(value).startswith(_REFERENCES):
        return "•" * 8
    if value in ("", ()):
        return "–"
    return ", ".join(value) if isinstance(value, tuple) else str(value)
