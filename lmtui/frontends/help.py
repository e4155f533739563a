"""`lmtui help TOPIC`: the pages of the docs, as they ship with the program."""

from __future__ import annotations

import difflib
from pathlib import Path

from lmtui.core.errors import UsageError
from lmtui.paths import docs_dir

_MOST_FOUND = 8


def show_page(topic: str) -> None:
    """Print a page, or which there are.

    Raises:
        UsageError: there is no such page, and none says anything about the topic.
    """
    pages = {page.stem: page for page in sorted(docs_dir().rglob("*.md"))}
    if not topic:
        print("`lmtui --help` lists the commands. Pages, each shown by `lmtui help TOPIC`:\n")
        for name, each in pages.items():
            print(f"  {name:<18} {_title(each)}")
        return
    wanted = topic.lower().strip().replace(" ", "-")
    beginning = [page for name, page in pages.items() if name.startswith(wanted)]
    page = pages.get(wanted) or (beginning[0] if len(beginning) == 1 else None)
    if page is None:
        about = [name for name, other in pages.items() if topic.lower() in other.read_text(encoding="utf-8").lower()]
        near = difflib.get_close_matches(topic, pages, n=1)
        if not about and not near:
            raise UsageError(f"no page says anything about {topic!r}", "`lmtui help` lists the pages.")
        print(f"there is no page {topic!r}. It stands on: {', '.join((about or near)[:_MOST_FOUND])}")
        return
    print(page.read_text(encoding="utf-8"), end="")


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next((line.removeprefix("#").strip() for line in lines if line.startswith("# ")), page.stem)
