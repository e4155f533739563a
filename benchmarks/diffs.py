"""Differences on screen: two files of 50,000 lines; B0 is a key in a bare app of the same run."""

from __future__ import annotations

import asyncio
import gc
from time import process_time

from benchmarks.harness import cost_ms, running
from benchmarks.report import Figure
from benchmarks.screen import SIZE, Bench, idle_key_ms
from lmtui.core.line_diff import compare, hunks_of, split_lines
from lmtui.tui.lines.code import highlight, lexer_for_path
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.patch import FilePatch, parse_patch

COUNT = 50_000


def texts(every: int) -> tuple[str, str]:
    """Return a file of 50,000 lines and one in which every so-many-th line is another."""
    lines = [f"value_{number} = compute({number}, 'text')\n" if number % 3 else "\n" for number in range(COUNT)]
    return "".join(lines), "".join(f"other_{number}\n" if number % every == 0 else line for number, line in enumerate(lines))


def patch_of_texts(path: str, old: str, new: str) -> FilePatch:
    """Compare two texts."""
    before, after = split_lines(old), split_lines(new)
    lines: list[str] = []
    for group in hunks_of(compare(before, after)):
        first, last = group[0], group[-1]
        sizes = (last.old_end - first.old_start, last.new_end - first.new_start)
        lines.append(f"@@ -{first.old_start + 1},{sizes[0]} +{first.new_start + 1},{sizes[1]} @@")
        for span in group:
            removed, added = before[span.old_start : span.old_end], after[span.new_start : span.new_end]
            is_equal = removed == added
            lines += [f" {each.rstrip()}" for each in removed] if is_equal else [f"-{each.rstrip()}" for each in removed]
            lines += [] if is_equal else [f"+{each.rstrip()}" for each in added]
    (file,) = parse_patch("\n".join(lines), path)
    return file


async def view_ms(every: int) -> dict[str, float]:
    """Return CPU of comparing and first paint, of a page, a hunk, a search, and of the change between the two forms."""
    view = DiffView()
    old, new = texts(every)
    _ = highlight(["x = 1"], lexer_for_path("big.py"))  # Pygments is loaded by then: other panes draw code too
    async with running(Bench(view), SIZE) as (_, meter):
        gc.freeze()
        found = {
            "paint": await cost_ms(meter, lambda _: view.show_patches((patch_of_texts("big.py", old, new),))),
            "page": await cost_ms(meter, lambda _: view.action_move("page_down"), 10),
        }
        if view.scroller.hunk_count == 1:
            return found
        return found | {
            "hunk": await cost_ms(meter, lambda _: view.scroller.go_to_hunk(view.scroller.hunk + 1), 10),
            "search": await cost_ms(meter, lambda _: view.search.find("other_49")),
            "split": await cost_ms(meter, lambda _: view.toggle_split()),
        }


def compare_ms() -> float:
    """Return CPU of comparing two files with 1,000 changes, without drawing."""
    old, new = map(split_lines, texts(50))
    gc.freeze()
    began = process_time()
    compare(old, new)
    return (process_time() - began) * 1000


async def _measure() -> list[Figure]:
    base, _ = await idle_key_ms()
    some, whole, alone = await view_ms(50), await view_ms(1), compare_ms()
    return [
        _figure("B0: key in a bare app", base, base),
        _figure("diff of two files of 50,000 lines, 1,000 changes, first paint", some["paint"], base, 200),
        _figure("the same, comparing alone (in a thread)", alone, base),
        _figure("the same, page down", some["page"], base),
        _figure("the same, next hunk", some["hunk"], base),
        _figure("the same, search", some["search"], base),
        _figure("the same, side by side to one column", some["split"], base),
        _figure("diff of two files of 50,000 lines, every line another, first paint", whole["paint"], base, 200),
        _figure("the same, page down", whole["page"], base),
    ]


def _figure(name: str, value_ms: float, base_ms: float, goal_ms: float = 0.0) -> Figure:
    return Figure(f"{name} ({value_ms / base_ms:.1f} × B0)", value_ms, "ms", goal_ms)


def figures() -> list[Figure]:
    """Measure."""
    return asyncio.run(_measure())
