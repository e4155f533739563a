"""What a skill in use, or the definition of a sub-agent, leaves to be called: it takes away, it never gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmtui.core.command_policy import decide_command
from lmtui.core.rules import Access, Mode, Rule, Verdict
from lmtui.core.tool_facts import Deed, tools_that

# Who may not do the one may not do the others.
_FAMILIES = tuple(frozenset(tools_that(deed)) for deed in (Deed.SHOWS, Deed.RUNS))
# Who may do the one may do the other: it shows or makes no more.
_COVERS = {"look": "read", "mkdir": "write"}


@dataclass(frozen=True, slots=True)
class SkillScope:
    """The tools that a skill names; `rules` are its words for them, all of the allowing kind.

    With `is_agent` it is the definition of a sub-agent that names them; tools that `denied` rules are about are left out.
    """

    skill: str
    rules: tuple[Rule, ...] = field(default=())
    is_agent: bool = False
    denied: tuple[Rule, ...] = ()

    @property
    def source(self) -> str:
        """Return whose limits these are, in words."""
        return f"{'sub-agent' if self.is_agent else 'skill'} {self.skill}"

    def refusal(self, tool: str, access: Access, subject: str) -> str:
        """Return why a call is none of the skill's, empty where it is one.

        What does nothing outside the session (plans, todos, the time, reading skills) always is.
        """
        if access is Access.NONE or self._covers(tool, subject):
            return ""
        named = ", ".join(map(str, self.rules)) or "no tools"
        if self.is_agent:
            return f"the {self.source} may use only {named}"
        return f"{self.source} is in use until this turn ends, and its allowed-tools are {named}"

    def rules_for(self, tool: str) -> tuple[Rule, ...]:
        """Return those of the rules that are about a tool."""
        family = {tool}.union(*(each for each in _FAMILIES if tool in each))
        if any(rule.names(each) for rule in self.denied for each in family):
            return ()
        return tuple(rule for rule in self.rules if rule.names(tool) or rule.tool == _COVERS.get(tool))

    def _covers(self, tool: str, subject: str) -> bool:
        rules = self.rules_for(tool)
        if tool == "shell" and not any(rule.pattern == "*" for rule in rules):
            return bool(rules) and decide_command(tool, subject, Mode.MANUAL, rules, asks_each=False).verdict is Verdict.ALLOW
        return any(rule.is_about(subject) for rule in rules)
