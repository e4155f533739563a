"""Reads HTML from its input and writes Markdown, under limits of its own.  Run as a file, never imported."""

from __future__ import annotations

import re
import resource
import sys

from bs4 import BeautifulSoup
from markdownify import MarkdownConverter

_TIME_S, _MEMORY_BYTES = 20, 2 << 30
_MOST_CHARS = 5_000_000  # nesting makes a page longer than it was: each level stands before each of its lines
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "form", "button", "nav")


def convert(html: str) -> str:
    """Return what is there to be read, without scripts, styles and navigation; the title stands first."""
    soup = BeautifulSoup(html, "html.parser")
    for tag in soup.find_all(_DROPPED):
        tag.decompose()
    title = soup.title.get_text(strip=True) if soup.title else ""
    body = soup.find("main") or soup.find("article") or soup.body or soup
    text = MarkdownConverter(heading_style="atx", strip=["title"], escape_misc=False).convert_soup(body)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    return f"# {title}\n\n{text}" if title and not text.startswith(f"# {title}") else text


def main() -> None:
    """Turn the input into the output."""
    resource.setrlimit(resource.RLIMIT_CPU, (_TIME_S, _TIME_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sys.setrecursionlimit(10_000)
    text = convert(sys.stdin.buffer.read().decode("utf-8", "replace"))
    sys.stdout.buffer.write(text[:_MOST_CHARS].encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
