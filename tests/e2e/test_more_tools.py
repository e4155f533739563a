from __future__ import annotations

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

ALL = ("--sandbox", "process", "--output", "stream-json")


def told(names: object) -> set[str]:
    assert isinstance(names, list)
    return {tool["function"]["name"] for tool in names}


async def test_they_are_not_told_by_default_and_python_asks(program: Program, serve: Serve) -> None:
    server = await serve(
        ScriptedTurn("So.", calls=(ScriptedCall("python", {"code": "open('n.txt', 'w').write('x')"}),)),
        ScriptedTurn("BLOCKED: no"),
    )
    done = await program.run("run", "--url", server.url, "--mode", "normal", *ALL, "do it")
    assert {"python", "fetch", "data_view", "web_search"} & told(server.requests[0].body["tools"]) == {"fetch"}
    assert done.code == 3
    assert not (program.workspace / "n.txt").exists()


async def test_the_doctor_says_what_the_web_is_for_the_model(program: Program) -> None:
    for name, value, words in (
        ("LMTUI_WEB", "ask", "fetch asks about each host; web_search is not set up"),
        ("LMTUI_WEB_SEARCH", "brave", "web_search: Brave has no key"),
        ("LMTUI_WEB_SEARCH_KEY", "key-0123456789", "fetch asks about each host; web_search: brave (api.search.brave.com)"),
        ("LMTUI_WEB", "off", "off"),
    ):
        program.environ[name] = value
        rows = (await program.run("doctor", "--offline", "--json")).json
        assert [row["text"] for row in rows if row["name"] == "web"] == [words]
