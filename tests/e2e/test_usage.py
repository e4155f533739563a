from __future__ import annotations

from datetime import UTC, datetime

from tests.e2e.conftest import Program, Serve
from tests.e2e.test_agents import FILES_ONLY, pair

FIELDS = ("requests", "prompt_tokens", "completion_tokens", "cached_tokens")


async def test_the_sums_are_those_that_the_server_told_sub_agents_and_forks_counted_once(
    program: Program, serve: Serve
) -> None:
    server = await serve(*pair())
    for _ in range(2):
        assert (await program.run("run", "--url", server.url, *FILES_ONLY, "have it written")).code == 0
        (program.workspace / "a.txt").unlink()
    served = {
        "requests": len(server.usage),
        "prompt_tokens": sum(each["prompt_tokens"] for each in server.usage),
        "completion_tokens": sum(each["completion_tokens"] for each in server.usage),
        "cached_tokens": 0,
    }
    assert served["requests"] == len(server.requests) >= 8
    report = (await program.run("usage", "--json")).json
    assert {name: report["total"][name] for name in FIELDS} == served
    for table in ("days", "models", "folders", "sessions"):
        assert {name: sum(each[name] for each in report[table]) for name in FIELDS} == served
    assert (report["range"], report["total"]["turns"], len(report["sessions"])) == ("7d", 2, 2)
    assert report["total"]["turn_s"] > report["total"]["model_s"] > 0
    assert [each["folder"] for each in report["folders"]] == [str(program.workspace)]
    assert [each["day"] for each in report["days"]] == [datetime.now(UTC).date().isoformat()]
    (program.workspace / "empty").mkdir()
    assert (await program.run("usage", "--workspace", ".", "--json")).json == report
    assert (await program.run("usage", "--workspace", "empty", "--json")).json["total"]["requests"] == 0
    text = (await program.run("usage", "--range", "today", "--by", "model")).out
    assert text.startswith("Today: ")
    assert report["models"][0]["model"] in text
