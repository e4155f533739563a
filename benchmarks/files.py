"""The files on screen: a tree of 100,000, a file of 10 MB, a line of 1 MB; B0 is a key in a bare app of the same run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

from benchmarks.harness import cost_ms, running
from benchmarks.report import Figure
from benchmarks.screen import SIZE, Bench, idle_key_ms
from lmtui.app.workspace_files import FolderWatch
from lmtui.core.workspace import DirEntry, GitState
from lmtui.tui.controllers.file_controller import FileFinder
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.path_index import FuzzyPaths
from lmtui.tui.screens.viewer import FileText, FileView

COUNT = 100_000
IDLE_S = 5.0
FOLDERS = ("src/core", "src/ui/widgets", "tests/unit", "docs/guide", "vendor/lib")


def entries(more: int = 0) -> list[DirEntry]:
    """Return the files of one folder."""
    return [DirEntry(f"file{number:06}.py", "file") for number in range(COUNT + more)]


def paths() -> list[str]:
    """Return the paths of a large workspace."""
    return [f"{FOLDERS[number % 5]}/part{number % 97}/module_{number:06}.py" for number in range(COUNT)]


async def tree_ms() -> dict[str, float]:
    """Return CPU of the first paint, of a refresh after one file came, of git's states, and of a cursor step."""
    tree = FileTree()
    first, second = entries(), entries(1)
    states = {f"file{number:06}.py": GitState.MODIFIED for number in range(0, COUNT, 10)}
    async with running(Bench(tree), SIZE) as (_, meter):
        return {
            "paint": await cost_ms(meter, lambda _: tree.set_listing("", first)),
            "refresh": await cost_ms(meter, lambda number: tree.set_listing("", second[1 + number % 2 :]), 5),
            "git": await cost_ms(meter, lambda number: tree.set_git(states if number % 2 == 0 else {}), 4),
            "step": await cost_ms(meter, lambda _: tree.action_move("down"), 20),
        }


async def filter_ms() -> tuple[float, float]:
    """Return CPU of the costliest key of a word typed into the filter, search and frame, and of preparing the search."""
    finder = FileFinder("", lambda _: ())
    async with running(Bench(FileTree()), SIZE) as (pilot, meter):
        await pilot.app.push_screen(finder)
        began = process_time()
        index = FuzzyPaths(paths())
        prepared = (process_time() - began) * 1000
        words = ["m", "mo", "mod9", "mod99", "widmod099", "xq"]
        costs = [await cost_ms(meter, _typed(finder, index, word)) for word in words]
        return max(costs), prepared


def _typed(finder: FileFinder, index: FuzzyPaths, word: str) -> Callable[[int], object]:
    return lambda _: finder.show(index.search(word)[0])


async def file_ms() -> dict[str, float]:
    """Return CPU of the first paint of 10 MB, a page, a search, wrapping; and of the first paint of a line of 1 MB."""
    view = FileView()
    text = "\n".join(f"value_{number} = compute({number}, 'text', [1, 2, 3])  # {'x' * 60}" for number in range(COUNT))
    data, line, word = text.encode(), b"x" * 1_000_000, "compute(99"
    async with running(Bench(view), SIZE) as (_, meter):
        found = {
            "paint": await cost_ms(meter, lambda _: view.show(FileText("big.py", data), size_bytes=len(data))),
            "page": await cost_ms(meter, lambda _: view.action_move("page_down"), 10),
            "search": await cost_ms(meter, lambda _: view.search.find(word)),
            "wrap": await cost_ms(meter, lambda _: view.take_width(90)),
        }
        found["line"] = await cost_ms(meter, lambda _: view.show(FileText("one.json", line), size_bytes=len(line)))
        return found


def _with_folders(name: str, folders: list[str]) -> Path:
    root = Path(name).resolve()
    for folder in folders:
        (root / folder).mkdir()
    return root


async def watch_idle() -> float:
    """Return the CPU, in per cent, of watching fifty folders in which nothing happens."""
    with tempfile.TemporaryDirectory() as name:
        folders = [f"folder{number}" for number in range(50)]
        watch = FolderWatch(_with_folders(name, folders), lambda _: None)
        watch.watch(frozenset(folders))
        began = process_time()
        await asyncio.sleep(IDLE_S)
        spent = process_time() - began
        watch.close()
        return 100 * spent / IDLE_S


async def _measure() -> list[Figure]:
    base, _ = await idle_key_ms()
    tree, (narrowed, prepared), file, idle = await tree_ms(), await filter_ms(), await file_ms(), await watch_idle()
    return [
        _figure("B0: key in a bare app", base, base),
        _figure("tree of 100,000 files, first paint", tree["paint"], base, 100),
        _figure("tree of 100,000 files, refresh after a change", tree["refresh"], base, 50),
        _figure("tree of 100,000 files, git's states", tree["git"], base, 50),
        _figure("tree of 100,000 files, cursor step", tree["step"], base),
        _figure("fuzzy filter over 100,000 paths, costliest key", narrowed, base, 50),
        _figure("fuzzy filter, made ready once (in a thread)", prepared, base),
        _figure("file of 10 MB, first paint", file["paint"], base, 150),
        _figure("file of 10 MB, page down", file["page"], base),
        _figure("file of 10 MB, search (in a thread)", file["search"], base),
        _figure("file of 10 MB, wrap", file["wrap"], base),
        _figure("line of 1 MB, first paint", file["line"], base, 150),
        Figure("watching 50 folders, nothing happens", idle, "%", 0.05),
    ]


def _figure(name: str, value_ms: float, base_ms: float, goal_ms: float = 0.0) -> Figure:
    return Figure(f"{name} ({value_ms / base_ms:.1f} × B0)", value_ms, "ms", goal_ms)


def figures() -> list[Figure]:
    """Measure."""
    return asyncio.run(_measure())
