from __future__ import annotations

import pytest

from lmtui.core.model_events import ToolSetChanged
from lmtui.core.servers import ModelKey, ModelProfile
from lmtui.engine.context import EDITING, REWRITING, system_prompt
from tests.engine.seen import seen
from tests.fakes import FakeProvider, Rig, answer


class Known:
    """Profiles that know one thing of every model."""

    def __init__(self, profile: ModelProfile) -> None:
        self.profile = profile

    def get(self, key: ModelKey) -> ModelProfile:
        return self.profile

    def put(self, key: ModelKey, profile: ModelProfile) -> None:
        pass


@pytest.mark.parametrize(("form", "has_edit"), [("whole", False), ("exact", True), ("", True)])
async def test_model_whose_edits_never_fitted_writes_files_whole(form: str, *, has_edit: bool) -> None:
    rig = Rig(FakeProvider(answer("done"), answer("done")), profiles=Known(ModelProfile(edit_form=form)))
    rig.session.prepare(is_eager=False)
    await rig.run()
    first = rig.provider.requests[0]
    assert ("edit" in {tool.name for tool in first.tools}) is has_edit
    assert (EDITING in first.messages[0].text) is has_edit
    assert (REWRITING in first.messages[0].text) is not has_edit
    await rig.run("again")
    assert rig.provider.requests[1].messages[: len(first.messages)] == first.messages
    assert [event.edits for event in seen(rig, ToolSetChanged)] == ([] if has_edit else ["whole"])


async def test_resumed_session_goes_on_with_the_same_tools() -> None:
    live = Rig(FakeProvider(answer("done")), profiles=Known(ModelProfile(edit_form="whole")))
    live.session.prepare(is_eager=False)
    await live.run()
    again = Rig(FakeProvider(answer("done")), profiles=Known(ModelProfile(edit_form="whole")), past=live.log.events)
    again.session.prepare(is_eager=False)
    await again.run("go on")
    assert again.provider.requests[0].tools == live.provider.requests[0].tools
    assert again.provider.requests[0].messages[0] == live.provider.requests[0].messages[0]


@pytest.mark.parametrize("tools", ["full", "lean"])
def test_every_prompt_says_how_files_are_changed(tools: str) -> None:
    assert EDITING in system_prompt(tools)
    assert REWRITING in system_prompt(tools, "whole")
