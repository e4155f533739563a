from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.engine.context_budget import truncate_result
from tests.engine.seen import ran
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

FILE = "\n".join(f"{number:>5}  line of text" for number in range(11, 911)) + "\n(lines 11–910 of 2000)"


def test_what_fits_stays_as_it_is() -> None:
    assert truncate_result("shell", "short", 5) == "short"


def test_a_file_is_cut_at_a_line_and_says_where_to_go_on() -> None:
    result = truncate_result("read", FILE, 1000)
    lines = result.splitlines()
    last = int(lines[-2].split()[0])
    assert lines[-2] == f"{last:>5}  line of text"
    assert f"go on with offset={last + 1}" in lines[-1]
    assert "(lines 11–910 of 2000)" in lines[-1]


def test_a_file_of_one_endless_line_says_another_way() -> None:
    assert "use grep" in truncate_result("read", "x" * 5000, 1000)


def test_of_a_commands_output_the_beginning_stays_and_more_of_the_end() -> None:
    result = truncate_result("shell", "first\n" + "noise\n" * 5000 + "the error\n", 1200)
    assert result.startswith("first")
    assert result.endswith("the error\n")
    assert "tail" in result
    assert "characters left out" in result


@pytest.mark.parametrize(("tool", "hint"), [("grep", "narrow"), ("glob", "narrow"), ("ls", "folder below")])
def test_a_listing_loses_its_last_lines(tool: str, hint: str) -> None:
    result = truncate_result(tool, "\n".join(f"src/file{number}.py" for number in range(500)), 1000)
    shown = result.count("src/file")
    assert f"{500 - shown} more lines left out" in result
    assert hint in result


@given(st.sampled_from(["read", "grep", "shell", "git_diff", "other"]), st.text(max_size=4000), st.integers(1000, 2000))
def test_a_cut_result_is_about_as_long_as_it_may_be(tool: str, text: str, limit: int) -> None:
    assert len(truncate_result(tool, text, limit)) <= limit + 200


async def test_the_model_can_go_on_from_where_a_file_was_cut() -> None:
    files = {"a.txt": b"".join(b"line %d\n" % number for number in range(1, 5000))}
    reads = answer("", ("read", '{"path": "a.txt", "limit": 5000}'))
    rig = await ran(Rig(FakeProvider(reads, answer("ok")), FakeSandbox(files)))
    sent = rig.provider.requests[-1].messages[-1].text
    assert len(sent) < 7_500
    assert "go on with offset=" in sent
