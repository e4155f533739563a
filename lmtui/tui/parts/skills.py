"""Skills in the app: their list, one that is to be followed, and functions that are to become tools."""

from __future__ import annotations

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.skill_words import promote_call, skill_call
from lmtui.tui.modals.skills import SkillList
from lmtui.tui.stage import Handler, Stage


class SkillsPart:
    """Answers the commands of skills."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"skills.show": self._show, "skills.promote": self._promote}

    async def _show(self, argument: str) -> None:
        host, active = self._stage.desk.host, self._stage.desk.active
        name, words = skill_call(argument)
        if host is None:
            return
        if not name:
            _ = self._stage.app.push_screen(SkillList(host.extensions.skills), self._take)
        elif active is None:
            self._stage.say("no session yet")
        else:
            try:
                used = await host.extensions.skills.use(name)
            except ToolError as error:
                self._stage.say(error.full_text(), "warning")
                return
            active.session.skills.begin(used, words)

    def _take(self, name: str | None) -> None:
        """Write the skill that was chosen into the prompt."""
        if name:
            self._stage.prompt.put_before(f"/skill {name} ")

    def _promote(self, argument: str) -> None:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
            return
        try:
            path, function, name = promote_call(argument)
        except UsageError as error:
            self._stage.say(error.full_text(), "warning")
            return
        active.session.skills.promote(path, function, name)
