"""What may begin at a `<`, `{` or `[` inside a line: a run of calls, or a quotation in which nothing counts."""

from __future__ import annotations

import re

from lmtui.providers.parsing.names import ToolNames

_TAG = re.compile(r"<(?:[A-Za-z][\w:\-]{0,60}|｜DSML｜\w{0,20})(?:[=\s][^<>\n]{0,230})?>|<\{+")
_TAG_MAY_COME = re.compile(r"<(?:(?:[A-Za-z][\w:\-]{0,60}|｜D?S?M?L?｜?\w{0,20})(?:[=\s][^<>\n]{0,230})?|\{+)?\Z")
_HEAD = re.compile(r"\{\s{0,40}[\"'“{]")
_HEAD_MAY_COME = re.compile(r"\{\s{0,40}\Z")
_LEADS = frozenset(":.!?>—–")
_QUOTES = re.compile(
    r"(?:examples?|samples?|quote|blockquote|pre|xmp|details|documentation|documents?|document_content|files?|file_contents?|contents"
    r"|excerpt|snippet|log|transcript|history|web_?page|page|email|context|template|source|data)",
    re.IGNORECASE,
)
_QUOTE_TAG = re.compile(r"<([A-Za-z][\w\-]{0,30})(?:\s[^<>\n]{0,200})?>")
_COMMENT = "<!--"


def may_open_call(text: str, at: int, before: str, *, is_final: bool) -> bool | None:
    """Tell whether calls may begin at a place; None: it cannot be told yet.

    Args:
        text: what is read.
        at: where a bracket stands.
        before: what was said before it; it ends in a line break at the start of a line.
        is_final: no more comes.
    """
    match text[at]:
        case "[":
            return before.endswith("\n")
        case "<":
            if _TAG.match(text, at) is not None:
                return True
            return None if not is_final and _TAG_MAY_COME.match(text, at) else False
        case "{" if before.rstrip()[-1:] in _LEADS:
            if not is_final and _HEAD_MAY_COME.match(text, at):
                return None
            return _HEAD.match(text, at) is not None
    return False


def quotation_at(text: str, at: int, tools: ToolNames, *, is_line_start: bool) -> tuple[str, int]:
    """Return what closes the quotation that a comment or a tag such as `<example>` opens, and how long its opening is."""
    if text.startswith(_COMMENT, at):
        return "-->", len(_COMMENT)
    tag = _QUOTE_TAG.match(text, at) if is_line_start else None
    if tag is None or _QUOTES.fullmatch(tag[1]) is None or tools.find(tag[1]) is not None:
        return "", 0
    return f"</{tag[1]}>", len(tag[0])


def may_be_comment(text: str, at: int) -> bool:
    """Tell whether the text ends in what may become the beginning of a comment."""
    return len(text) - at < len(_COMMENT) and _COMMENT.startswith(text[at:])
