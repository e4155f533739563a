from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lmtui.core.permissions.rules import Verdict
from lmtui.core.workspace import GrepMatch
from lmtui.tools.registry import ToolRegistry
from tests.fakes import FakeSandbox
from tests.tools.test_files import Bench

REGISTRY = ToolRegistry("/home/me/project")


@dataclass
class Places(FakeSandbox):
    asked: list[str] = field(default_factory=list)

    async def grep(self, pattern: str, *, path: str = "", **_: object) -> Sequence[GrepMatch]:
        if pattern == "\0":
            return []
        self.asked.append(path)
        return [GrepMatch(name, 1, "x") for name in sorted(self.files) if name.startswith(path)]

    async def glob(self, pattern: str, max_results: int = 200) -> Sequence[str]:
        self.asked.append(pattern)
        return []


class SearchBench(Bench):
    def __init__(self, *names: str) -> None:
        super().__init__()
        self.sandbox: Places = Places(dict.fromkeys(names, b"x\n"))


async def test_grep_searches_each_of_several_places_once_under_the_rules_for_each() -> None:
    bench = SearchBench("a/1", "b/2", "c/3")
    result = await bench.call("grep", pattern="x", paths=["a", "/home/me/project/b", "a/1"])
    assert (bench.sandbox.asked, result.text) == (["a", "b", "a/1"], "a/1\n    1: x\nb/2\n    1: x")
    assert result.summary == "2 in 2 files"
    assert REGISTRY.prepare("grep", '{"pattern": "x", "paths": ["a", "b"], "path": "c"}').subjects == ("c", "a", "b")
    assert REGISTRY.prepare("grep", '{"pattern": "x", "paths": "[\\"a\\"]"}').subjects == ("a",)
    assert REGISTRY.prepare("grep", '{"pattern": "x"}').subjects == (".",)


async def test_a_secret_file_is_shown_only_where_it_is_the_place_that_was_named() -> None:
    bench = SearchBench("a/.env", "b")
    assert "left out" in (await bench.call("grep", pattern="x", paths=["a", "b"])).text
    assert "a/.env" in (await bench.call("grep", pattern="x", paths=["a/.env"])).text
    context = replace(bench.context(), on_reading=lambda _: Verdict.DENY)
    denied = await REGISTRY.prepare("grep", '{"pattern": "x", "paths": ["a/.env"]}').run(context)
    assert denied.text.startswith("no matches")


async def test_glob_looks_below_the_folder_that_is_given() -> None:
    bench = SearchBench()
    await bench.call("glob", pattern="**/*.py", path="/home/me/project/src")
    await bench.call("glob", pattern="*.py")
    assert bench.sandbox.asked == ["src/**/*.py", "*.py"]
    assert REGISTRY.prepare("glob", '{"pattern": "*", "path": "src"}').subjects == ("src/*",)
