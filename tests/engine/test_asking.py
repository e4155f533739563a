from __future__ import annotations

import pytest

from lmtui.core.events import Notice
from lmtui.core.messages import SilenceChunk
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, Rig, answer


@pytest.mark.parametrize("is_attended", [True, False])
async def test_a_silent_server_is_told_of_and_the_provider_knows_whether_somebody_is_there(*, is_attended: bool) -> None:
    rig = await ran(Rig(FakeProvider([SilenceChunk(560.0), *answer("hello")]), is_attended=is_attended))
    told = [event.text for event in seen(rig, Notice)]
    assert told == ["http://fake/v1 has not answered for 560 s. Wait (it may still be reading the prompt) or stop the turn."]
    assert rig.provider.requests[0].is_attended == is_attended
