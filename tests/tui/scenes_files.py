"""Moments of the files: the tree with git's marks, the filter, a file that is read and searched."""

from __future__ import annotations

from lmtui.core.workspace import GitState
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.screens.viewer import FileView
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

LEXER = '''"""Splits a text into tokens."""

from __future__ import annotations

from collections.abc import Iterator

from parser.tokens import Token


class Lexer:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def skip_comment(self) -> None:
        """Go behind a comment; comments may stand in comments, and each needs an end of its own, else the last one wins."""
        depth = 1
        while depth:
            if self.take("/*"):
                depth += 1
            elif self.take("*/"):
                depth -= 1
            else:
                self.pos += 1

    def tokens(self) -> Iterator[Token]:
        """Yield token after token."""
        while self.pos < len(self.text):
            yield self.token()
'''
MORE = {
    "parser/__init__.py": b"",
    "parser/errors.py": b"",
    "parser/grammar/rules.py": b"",
    "docs/übersicht.md": b"",
    "docs/漢字.md": b"",
    "scripts/odd\nname\u202e.sh": b"",
    "build/lib/parser.py": b"",
    "CHANGES.md": b"",
}


async def with_files(driver: Driver) -> None:
    """A workspace in which git and the agent both know of changes."""
    files = driver.host.files
    files.contents |= MORE | {"parser/lexer.py": LEXER.encode()}
    files.git = {
        "parser/lexer.py": GitState.MODIFIED,
        "parser/grammar": GitState.UNTRACKED,
        "parser/errors.py": GitState.RENAMED,
        "docs/übersicht.md": GitState.ADDED,
        "CHANGES.md": GitState.CONFLICTED,
        "build": GitState.IGNORED,
    }
    play_work(driver.host.session)
    files.tell("", has_git_changed=True)
    shown = driver.app.workbench.query_one(FileTree)
    await driver.until(lambda: any(row.path == "CHANGES.md" for row in shown.source.tree.rows))
    await driver.press("f6")


async def tree(driver: Driver) -> None:
    """Folders open, git's letters before the names, the agent's behind; what is ignored is shown, dim."""
    await with_files(driver)
    await driver.press("enter")
    await driver.until_shown("tokens.py", "#files")
    await driver.press("s")
    driver.app.workbench.say("")
    await driver.settle()


async def found(driver: Driver) -> None:
    """Files found by a few characters."""
    await with_files(driver)
    await driver.press("slash", *"ler")
    await driver.until_shown(" of ", "#picker-title")
    await driver.settle()


async def viewer(driver: Driver) -> None:
    """A file, searched."""
    await with_files(driver)
    driver.app.workbench.ready.files.open_file("parser/lexer.py")
    await driver.until_screen("Viewer")
    await driver.until(lambda: driver.app.screen.query_one(FileView).source.line_count > 0)
    await driver.press("slash", *"take")
    await driver.until_shown("1 of 2", "#viewer-file")


FILE_SCENES = {"files": tree, "files_found": found, "viewer": viewer}
