"""What the definition of a sub-agent makes of it: what it is told, and which tools are left to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lmtui.core.agent_definitions import AgentDefinition
from lmtui.core.errors import ToolError
from lmtui.core.guidance import without_tags
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.ports import PreparedCall, Toolbox
from lmtui.core.rules import MCP, Effect, Rule, parse_rule
from lmtui.core.skill_scope import SkillScope

_ALWAYS = "report_result"
_SERVERS = "mcp_"
_FORM = '<instructions from="sub-agent {name}">\n{text}\n</instructions>'
_CUT = "\n[cut here: {count:,} more characters]"


def instructions_text(definition: AgentDefinition, limit_chars: int) -> str:
    """Return the instructions of a definition as a sub-agent is told them, the end of long ones left out and said to be."""
    text = without_tags(definition.instructions)
    if len(text) > limit_chars:
        text = text[:limit_chars].rstrip() + _CUT.format(count=len(text) - limit_chars)
    return _FORM.format(name=definition.name, text=text)


def scopes_of(definition: AgentDefinition) -> tuple[SkillScope, ...]:
    """Return what a definition leaves to be called; nothing where it does not say."""
    allowed = _rules(definition, definition.allowed if definition.allowed is not None else ("*",), Effect.ALLOW)
    denied = tuple(rule for rule in _rules(definition, definition.denied, Effect.DENY) if rule.pattern == "*")
    is_limited = definition.allowed is not None or denied
    return (SkillScope(definition.name, allowed, is_agent=True, denied=denied),) if is_limited else ()


def denied_rules(definition: AgentDefinition) -> tuple[Rule, ...]:
    """Return the rules that take some calls of a tool away; whole tools are left out of the scope."""
    return tuple(rule for rule in _rules(definition, definition.denied, Effect.DENY) if rule.pattern != "*")


def narrowed(toolbox: Toolbox, scopes: Sequence[SkillScope]) -> Toolbox:
    """Return the tools of a sub-agent as far as its definition, and those of the agents above it, name them."""
    for scope in scopes:
        toolbox = NarrowedToolbox(toolbox, scope) if scope.is_agent else toolbox
    return toolbox


class NarrowedToolbox:
    """Implements `core.ports.Toolbox` over another: of its tools those that a definition names, and the one that reports."""

    def __init__(self, base: Toolbox, scope: SkillScope) -> None:
        self._base, self._scope = base, scope

    def specs(self, tools: ToolSet = ToolSet.FULL, *, sees: bool = False) -> tuple[ToolSpec, ...]:
        """Return what the model is told of the tools."""
        return tuple(spec for spec in self._base.specs(tools, sees=sees) if self._is_left(spec.name))

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        """Check one call; see `core.ports.Toolbox.prepare`."""
        prepared = self._base.prepare(name, arguments)
        if not self._is_left(prepared.tool):
            there = ", ".join(spec.name for spec in self.specs(ToolSet.ALL))
            raise ToolError(f"{prepared.tool} is not a tool of the {self._scope.source}", f"Its tools: {there}.")
        return prepared

    def _is_left(self, tool: str) -> bool:
        """Tell whether a tool may be called; who may call one of a server's may look for it."""
        is_search = tool.startswith(_SERVERS) and not tool.startswith(MCP)
        has_servers = any(rule.tool.startswith((MCP, "*")) for rule in self._scope.rules)
        return tool == _ALWAYS or bool(self._scope.rules_for(tool)) or (is_search and has_servers)


def _rules(definition: AgentDefinition, texts: Iterable[str], effect: Effect) -> tuple[Rule, ...]:
    return tuple(parse_rule(text, effect, f"sub-agent {definition.name}") for text in texts)
