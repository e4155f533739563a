from __future__ import annotations

from lmtui.core.servers import ServedModel, ServerFound
from tests.plain.test_console import Host, talk


def test_a_profile_that_is_named_connects_the_session_and_without_a_name_they_are_listed() -> None:
    host = Host()
    said = talk("/profile gpu", host=host)[0].said
    assert host.used == ("profile:", "gpu")
    assert "connected with the profile gpu" in "\n".join(said)
    host = Host()
    host.servers.found = (ServerFound("profiles", "profile:", (ServedModel("gpu", instance="gpu:8080  qwen"),)),)
    assert "there are gpu" in "\n".join(talk("/profile", host=host)[0].said)
    assert "there are no profiles" in "\n".join(talk("/profile", host=Host())[0].said)
