"""The settings: each with its default, a line of help, its names in the environment, and what it may be.

They are read by `lmtui.config`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from lmtui.core.permissions.rules import Mode
from lmtui.registry import FEATURES

MODES = tuple(str(mode) for mode in Mode)
SANDBOXES = ("auto", "docker", "podman", "bubblewrap", "landlock", "process")
NETWORKS = ("off", "proxy", "on")
# Settings of earlier versions, which are named and left out.
RETIRED = frozenset({
    "agent_max_iterations", "agent_max_tokens", "agent_timeout_s", "check_timeout_s", "command_cores", "command_file_mb",
    "command_max_timeout_s", "command_processes", "command_tmp_mb", "critic_models", "critics", "host_approval_wait_s",
    "host_idle_s", "host_notify", "host_origins", "kv_cache_gb", "language_servers", "lint_command", "max_empty_iterations",
    "max_errors", "max_no_progress_iters", "max_same_tool_streak", "mcp_serve_tools", "memory_gate_ratio",
    "memory_gate_swap_mb", "memory_gate_timeout_s", "memory_index_tokens", "memory_recall", "memory_reflection",
    "network_hosts", "one_model", "phase_batch", "plan_contracts", "review", "sandbox_runtime", "scheduler_interval_s",
    "task_attempts", "task_tries", "titles", "toolchains",
})  # fmt: skip
IS_RETIRED = "is no longer used; CHANGELOG.md says what replaces it"


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
    profiles: tuple[str, ...] = _setting(
        (), "named connections, such as gpu: url=http://gpu:8080 model=qwen3-coder api_key=file:~/.gpu.key",
        label="Connection profiles",
    )  # fmt: skip
    servers: tuple[str, ...] = _setting(
        (), "servers to use as one pool: addresses, host names or profile names",
        label="Server pool",
    )  # fmt: skip
    profile: str = _setting("", "name of the profile to use", "LLM_PROFILE", label="Connection profile")
    temperature: float = _setting(0.65, "sampling temperature, 0 to 2", "LLM_TEMPERATURE", "TEMPERATURE", at_least=0, at_most=2)
    seed: int = _setting(-1, "sampling seed; -1: none", "LLM_SEED")
    top_p: float = _setting(0.0, "nucleus sampling, 0 to 1; 0: the server's default", "LLM_TOP_P", at_least=0, at_most=1)
    repeat_penalty: float = _setting(
        0.0, "repetition penalty, about 1.05 to 1.2; 0: the server's default", "LLM_REPEAT_PENALTY", at_least=0, at_most=2,
        label="Repetition penalty",
    )  # fmt: skip
    call_form: str = _setting(
        "auto", "tool call format (auto: detected per model)", "LLM_CALL_FORM",
        choices=("auto", "native", "text", "schema"), label="Tool call format",
    )  # fmt: skip
    tools: str = _setting(
        "auto", "tools for the model; auto: full, or lean in small windows; all: Python too", "LMTUI_TOOLS",
        choices=("auto", "full", "lean", "all"), label="Tools for the model",
    )  # fmt: skip
    roles: tuple[str, ...] = _setting(
        (), "models for single roles, such as planner: qwen3-14b temperature=0.2", label="Models by role"
    )
    vision: str = _setting(
        "auto", "whether the model sees pictures; auto: as its server reports", "VISION_ENABLED",
        choices=("auto", "true", "false"), label="Model sees images",
    )  # fmt: skip
    context_tokens: int = _setting(
        0, "the model's context window in tokens if the server reports none; 0: found when a request is refused", at_least=0,
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
    sub_agents: str = _setting(
        "on", "whether the model may hand parts of its work to sub-agents", "ENABLE_SUB_AGENTS", choices=("on", "off")
    )
    mcp: str = _setting(
        "on", "whether MCP servers are started", "ENABLE_MCP", choices=("on", "off"), feature="mcp", label="MCP servers"
    )
    hooks: str = _setting("on", "whether hooks run", "ENABLE_HOOKS", choices=("on", "off"), feature="hooks")
    append_system_prompt: str = _setting(
        "", "extra instructions for the model, added to those of the folder", feature="instructions", label="Extra instructions"
    )
    agent_max_depth: int = _setting(
        3, "how many levels of sub-agents are allowed", "AGENT_MAX_DEPTH", at_least=0, at_most=5, label="Sub-agent levels"
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
    verify: str = _setting(
        "auto", "check changes: auto finds the project's own commands, off runs none; else the command that decides, or "
        "profile:NAME", "LMTUI_VERIFY", feature="checks", label="Verify changes",
    )  # fmt: skip
    check_profiles: tuple[str, ...] = _setting(
        (), "named sets of commands, such as full: make test, full build: make, full lint: ruff check {files}", feature="checks"
    )
    goal: str = _setting("", "goal of a new session: a command that has to exit with 0 before a turn may end", feature="checks")
    gate: str = _setting(
        "standard",
        "findings that block a turn; standard: critical, and major not of a reviewer; strict: all, a reviewer's if it rejects",
        choices=("off", "standard", "strict"), feature="checks", label="Gate",
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
    web: str = _setting(
        "ask", "whether fetch and web_search may reach the web; ask: asks about each host", "LMTUI_WEB",
        choices=("ask", "off"), feature="web_tools", label="Web for the model",
    )  # fmt: skip
    web_search: str = _setting(
        "", "search backend: searxng: URL, brave, or command: PROGRAM ARGUMENTS; empty: none",
        "LMTUI_WEB_SEARCH", feature="web_tools", label="Web search",
    )  # fmt: skip
    web_search_key: str = _setting(
        "", "key for Brave, or file:PATH, or keyring:NAME", "LMTUI_WEB_SEARCH_KEY", is_secret=True, feature="web_tools",
        label="Web search key",
    )  # fmt: skip
    add_dirs: tuple[str, ...] = _setting(
        (), "other folders that the agent may read; DIR:rw allows changes", label="Added folders"
    )
    pass_env: tuple[str, ...] = _setting((), "environment variables that are passed to commands", label="Passed variables")
    command_timeout_s: int = _setting(120, "default time limit of a command in seconds", at_least=1, label="Command time limit")
    command_memory_mb: int = _setting(
        0, "memory of a command in MB; 0: half of the machine's", at_least=0, label="Command memory (MB)"
    )
    image: str = _setting("lmtui-sandbox:3", "Docker image of the sandbox", "LMTUI_IMAGE", label="Sandbox image")
    inbox: str = _setting(
        "off", "create jobs from task files that other programs write to .lmagent/inbox", choices=("off", "on"),
        feature="jobs", label="Job inbox",
    )  # fmt: skip
    plan_commits: str = _setting("on", "commit each task of a plan", choices=("off", "on", "trailers"), feature="pipeline")
    memory: str = _setting(
        "on", "keep and search notes across sessions; manual: do not attach or propose notes automatically", "ENABLE_MEMORY",
        choices=("on", "manual", "off"), feature="memory",
    )  # fmt: skip
    otel_endpoint: str = _setting("", "OTLP/HTTP address for traces; empty: off", "LMTUI_OTEL_ENDPOINT", feature="otel")
    notify: str = _setting(
        "auto", "how to notify you that a session is done or waits while you are in another window", "LMTUI_NOTIFY",
        choices=("auto", "osc9", "osc777", "bell", "off"), label="Notifications",
    )  # fmt: skip
    host_folders: tuple[str, ...] = _setting(
        (), "folders that clients of the HTTP API may use, in addition to those opened on this machine", label="API folders"
    )
    host_http: str = _setting(
        "", "address of the HTTP API, such as 127.0.0.1:8765; empty: local socket only", label="API address"
    )
    host_names: tuple[str, ...] = _setting(
        (),
        "additional host names of the API, and web pages that may use it, such as https://chat.example",
        label="API host names",
    )
    host_certificate: str = _setting("", "PEM file with the certificate and key of the API", label="API certificate")
    theme: str = _setting("", "color theme; empty: the default theme", "LMTUI_THEME")

    @property
    def check_limit_s(self) -> int:
        """Return the maximum seconds for one check; a slower one is not repeated."""
        return max(180, self.command_timeout_s)

    @property
    def has_sub_agents(self) -> bool:
        """Tell whether the model may send sub-agents."""
        return self.sub_agents == "on" and self.agent_max_depth > 0


SETTINGS = {each.name: each for each in fields(Config) if each.metadata["feature"] in ("", *FEATURES)}
MODEL_SETTINGS = ("url", "model", "profile")
