"""Reads HTML from its input and writes Markdown, under its own limits.  Run as a file, never imported."""

from __future__ import annotations

import re
import resource
import sys

from bs4 import BeautifulSoup
from markdownify import MarkdownConverter
from soupsieve import SelectorSyntaxError

_TIME_S, _MEMORY_BYTES = 20, 2 << 30
_MOST_CHARS = 5_000_000  # nesting makes a page longer than it was: each level stands before each of its lines
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "form", "button", "nav")


_NO_MATCH, _BAD_SELECTOR = 3, 4  # exit codes that html_markdown knows


def select(soup: BeautifulSoup, selector: str) -> BeautifulSoup:
    """Return only what a CSS selector matches, or end the process with the code that says why nothing."""
    try:
        found = soup.select(selector)
    except SelectorSyntaxError:
        sys.exit(_BAD_SELECTOR)
    if not found:
        sys.exit(_NO_MATCH)
    inner = {id(child) for tag in found for child in tag.descendants}
    part = BeautifulSoup("", "html.parser")
    for tag in found:
        if id(tag) not in inner:
            part.append(tag.extract())
    return part


def convert(html: str, selector: str = "") -> str:
    """Return what is there to be read, without scripts, styles and navigation; the title is first."""
    soup = BeautifulSoup(html, "html.parser")
    if selector:
        soup = select(soup, selector)
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
    text = convert(sys.stdin.buffer.read().decode("utf-8", "replace"), *sys.argv[1:2])
    sys.stdout.buffer.write(text[:_MOST_CHARS].encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
