"""HTML as Markdown.  The process of parsers that starts for each page loads this alone."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

HTML = ("text/html", "application/xhtml+xml")
_MOST_CHARS = 5_000_000  # nesting makes a page longer than it was: each level stands before each of its lines
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "form", "button", "nav")


def convert(html: str, selector: str = "") -> tuple[str, str]:
    """Return why a CSS selector selects nothing, and what is there to be read: title, then text."""
    sys.setrecursionlimit(10_000)
    bs4, markdownify, soupsieve = map(importlib.import_module, ("bs4", "markdownify", "soupsieve"))
    soup = bs4.BeautifulSoup(html, "html.parser")
    if selector:
        try:
            found = soup.select(selector)
        except soupsieve.SelectorSyntaxError:
            return "is not a CSS selector", ""
        if not found:
            return "matches nothing on the page", ""
        soup = _joined(found, bs4.BeautifulSoup("", "html.parser"))
    for tag in soup.find_all(_DROPPED):
        tag.decompose()
    title = soup.title.get_text(strip=True) if soup.title else ""
    body = soup.find("main") or soup.find("article") or soup.body or soup
    text = markdownify.MarkdownConverter(heading_style="atx", strip=["title"], escape_misc=False).convert_soup(body)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    return "", (f"# {title}\n\n{text}" if title and not text.startswith(f"# {title}") else text)[:_MOST_CHARS]


def _joined(found: Any, part: Any) -> Any:  # of bs4
    """Put what was found into an empty page; what is inside of another is there with it."""
    inner = {id(child) for tag in found for child in tag.descendants}
    for tag in found:
        if id(tag) not in inner:
            part.append(tag.extract())
    return part
