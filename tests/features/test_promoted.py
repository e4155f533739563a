from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.events import Envelope, TurnStarted
from lmtui.core.messages import ToolSet
from lmtui.core.window import bytes_by_four
from lmtui.features.skills.promoted import PromotedTools, check
from lmtui.features.skills.service import SkillTools
from lmtui.features.skills.values import PromotedTool
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.tool import BroughtTools, SessionToolbox, Told
from tests.sets import for_each

GOOD = '''\
"""A module."""
from __future__ import annotations
import json, os.path as p
from typing import Literal, Optional
import re

WORDS = re.compile("x")

# above
def shorten(
    text: str, how: Literal["a", "b"] = "a", *, most: int | None = None, parts: Optional[list[dict[str, float]]] = None
) -> str:
    """Shorten a text.

    More of it.
    """
    def inner(each: str) -> str:
        return each[:most]
    return json.dumps([inner(text), p.basename(text), how, parts])  # the end


class Other:
    def method(self) -> str:
        """Is no function."""
        return ""
'''


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "lmtui"))
    return tmp_path / "work"


def tools(workspace: Path) -> PromotedTools:
    return PromotedTools(workspace, bytes_by_four)


def a_tool(name: str = "") -> PromotedTool:
    return check("a.py", GOOD, "shorten", name)


def test_what_python_finds_wrong_only_after_parsing_and_a_type_of_any_depth_are_said() -> None:
    for wrong in ("global a", "nonlocal b"):
        with pytest.raises(ToolError, match="invalid Python"):
            _ = check("a.py", f"def f(a: int) -> int:\n    'Say.'\n    {wrong}\n    return 1\n", "f", "")
    hint = " | ".join(["int"] * 3_000)
    with pytest.raises(ToolError, match=r"invalid Python|cannot be read"):
        _ = check("a.py", f"def f(a: {hint}) -> int:\n    'Say.'\n    return 1\n", "f", "")


def test_a_function_stands_alone_with_the_imports_that_it_needs() -> None:
    tool = a_tool()
    assert (tool.name, tool.function, tool.description) == ("skill__shorten", "shorten", "Shorten a text.")
    head, _, body = tool.source.partition("\n\n\n")
    assert head.splitlines() == [
        "from __future__ import annotations", "import json, os.path as p", "from typing import Literal, Optional",
    ]  # fmt: skip
    assert body.startswith("def shorten(")
    assert body.endswith("how, parts])\n")
    assert tool.parameters == {"type": "object", "properties": {
        "text": {"type": "string"}, "how": {"enum": ["a", "b"]},
        "most": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "parts": {
            "anyOf": [
                {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "number"}}},
                {"type": "null"},
            ]
        },
    }, "additionalProperties": False, "required": ["text"]}  # fmt: skip


@for_each(("text", "reason"), [
    ("def f() -> int: return 1", "no docstring"),
    ('def f():\n    "Do."', "its result has no type hint"),
    ('def f(a) -> int:\n    "Do."', "argument a has no type hint"),
    ('def f(a: bytes) -> int:\n    "Do."', "argument a has a type that JSON does not support: bytes"),
    ('def f(a: "set[str]") -> int:\n    "Do."', "set[str]"),
    ('def f(*a: int) -> int:\n    "Do."', "no name"),
    ('@cache\ndef f() -> int:\n    "Do."', "it is decorated"),
    ('X = []\ndef f() -> int:\n    "Do."\n    X.append(1)\n    return 1', "it uses X, which is outside of it"),
    ('X = 1\ndef f() -> int:\n    "Do."\n    global X\n    X = 2\n    return X', "it uses X, which"),
    ('def f() -> int:\n    "Do."\n    yield 1', "it yields"),
    ('from . import helper\ndef f() -> int:\n    "Do."\n    return helper.x', "it uses helper, which"),
    ('def f() -> int:\n    "Do."\n    return 1\ndef f() -> int:\n    "Do."\n    return 2', "no one function"),
    ('class C:\n    def f(self) -> int:\n        "Do."\n        return 1', "no one function"),
    ("def f(:", "cannot be read as Python"), ("x = (" * 300, "cannot be read as Python"),
    ("\0", "cannot be read as Python"),
    ('def f() -> str:\n    "Do."\n    return "' + "x" * 30_000 + '"', "more than 24,000"),
])  # fmt: skip
def test_what_cannot_be_a_tool_says_why(text: str, reason: str) -> None:
    with pytest.raises(ToolError) as found:
        _ = check("a.py", text, "f", "")
    assert reason in found.value.full_text()


@given(st.text(max_size=80), st.text(max_size=10))
def test_whatever_is_in_a_file_it_is_a_tool_or_refused(body: str, name: str) -> None:
    for text in (
        body,
        f'def f(a: {body}) -> int:\n    "Do."\n    return 1',
        f'def f() -> int:\n    "Do."\n    {body}\n    return 1',
    ):
        try:
            tool = check("a.py", text, "f", name)
        except ToolError:
            continue
        assert tool.name.startswith("skill__")
        assert json.dumps(tool.parameters)


def test_a_tool_is_kept_for_one_workspace_and_forgotten_again(workspace: Path) -> None:
    tools(workspace).keep(a_tool())
    assert [tool.name for tool in tools(workspace).all()] == ["skill__shorten"]
    assert tools(workspace).named("SKILL__shorten").tokens > 0
    assert not tools(workspace.parent / "other").all()
    again = tools(workspace)
    assert again.remove("skill__shorten")
    assert not again.remove("skill__shorten")
    assert not tools(workspace).all()


def test_one_whose_file_was_changed_is_not_called(workspace: Path, tmp_path: Path) -> None:
    tools(workspace).keep(a_tool())
    (file,) = (tmp_path / "lmtui" / "state" / "promoted").glob("*/*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    found = json.loads(file.read_text())
    file.write_text(json.dumps({**found, "source": "import os\ndef shorten(text: str) -> str: ...\n"}))
    with pytest.raises(ToolError, match="not the one you approved"):
        _ = tools(workspace).named("skill__shorten")
    assert "skill__shorten" not in [spec.name for spec in SkillTools(ToolRegistry(), tools(workspace)).offer(ToolSet.FULL, 0)]
    file.write_text("{")
    assert not tools(workspace).all()
    file.rename(file.with_name("skill__other.json"))
    file.with_name("skill__other.json").write_text(json.dumps(found))
    assert not tools(workspace).all()


def toolbox(own: ToolRegistry, kept: PromotedTools) -> SessionToolbox:
    found = SkillTools(own, kept)
    return SessionToolbox(own, [BroughtTools(found.offer, found.prepare)])


def test_the_models_list_stays_once_it_was_sent(workspace: Path) -> None:
    kept = tools(workspace)
    own = ToolRegistry(told={"skill": Told.ALWAYS})
    box = toolbox(own, kept)
    assert "skill" in [spec.name for spec in box.specs()]
    box.follow(Envelope(1, datetime.now(UTC), "s", TurnStarted(turn_id="t")))
    before = box.specs()
    kept.keep(a_tool())
    assert box.specs() == before
    assert box.prepare("skill__shorten", '{"text": "x", "most": "3"}').arguments["text"] == "x"
    fresh = toolbox(own, kept)
    assert [spec.name for spec in fresh.specs()][-1] == "skill__shorten"
    assert [spec.name for spec in fresh.specs(ToolSet.ALL)].count("skill") == 1
    for tools_set in (ToolSet.LEAN, ToolSet.LONG):
        assert fresh.specs(tools_set) == ToolRegistry().specs(tools_set)
    assert fresh.prepare("skill", '{"name": "find-bug"}').tool == "skill"
