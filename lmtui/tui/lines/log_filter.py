"""What the tool log is narrowed down by: words anywhere, and `tool:`, `agent:`, `state:` followed by the beginning of one."""

from __future__ import annotations

from dataclasses import dataclass

STATE_WORDS = ("running", "waiting", "ok", "failed", "stopped", "undone")
_FIELDS = ("tool", "agent", "state")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Every word must be there; of several values of one field, one must fit."""

    words: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether everything fits."""
        return not (self.words or self.tools or self.agents or self.states)

    def fits(self, tool: str, agent: str, title: str, state: str) -> bool:
        """Tell whether a call fits."""
        if self.tools and not tool.casefold().startswith(self.tools):
            return False
        if self.agents and not agent.casefold().startswith(self.agents):
            return False
        if self.states and not state.startswith(self.states):
            return False
        if not self.words:
            return True
        text = f"{agent} {tool} {title}".casefold()
        return all(word in text for word in self.words)


def read_filter(text: str) -> LogFilter:
    """Read what was typed; a field without a value yet (`tool:`) narrows nothing."""
    words: list[str] = []
    found: dict[str, list[str]] = {field: [] for field in _FIELDS}
    for word in text.casefold().split():
        field, colon, value = word.partition(":")
        if colon and field in found:
            found[field] += [value] if value else []
        else:
            words.append(word)
    return LogFilter(tuple(words), tuple(found["tool"]), tuple(found["agent"]), tuple(found["state"]))
