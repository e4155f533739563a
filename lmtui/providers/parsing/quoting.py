"""Whether calls are the model's own or quoted: judged by the words that lead to them and those that stand behind.

The judgement is about who acts and when.  “I'll read it:” and “Reading the file:” act now; “the log says:”, “you could call:”,
“the previous call was:”, “if you agree, I run:” do not.  A sentence that is whole before the calls (“The file has a bug.”) says
nothing of them unless it announces a quotation.  What is not told in English is not judged.
"""

from __future__ import annotations

import re

from lmtui.providers.parsing import phrases

LEAD_CHARS = 600
_FEW_WORDS = 3

_LINE_OF_OTHERS = re.compile(
    r"\s*(?:[>|]|[+\-](?=[<{\[])|\$\s|\d+\s*[|\t]|\d+:\s*\Z|\S+:\d+:|\[?\d\d:\d\d|\[?\d{4}-\d\d)"
    r"|.*(?:[\"'“‘(«]|\.{4,}\s*|\be\.g\.|\bi\.e\.)\Z|[^)\n]*\((?:[^)\n]{0,200}\([^)\n]*\))*[^)\n]*\Z"
)
_PROMPT = re.compile(r"[ \t]*(?:[\w~/@:.\]()-]*[$%]|[\w~/@:.\]()-]+#|PS [^\n>]{0,60}>|>>>) \S")
_OTHERS_SPEAK = re.compile(r"\bHTTP/[123](?:\.\d)?\b|(?:\A|\n)[ \t]*(?:User|Human):")
_HEREDOC = re.compile(r"<<-?\s*['\"]?([A-Za-z_]\w*)['\"]?")
_MARKER = re.compile(r"(?:\A|\n)[ \t]*(?:[-*+•]|\d{1,3}[.)]|\(?[a-z]\))\s*\Z")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)]|\(?[a-z]\))\s+")
_ORNAMENT = re.compile(r"(?:(?:\A|\n)[ \t]*(?:[-*_=]{3,}|#{1,6})|\*\*|__)\s*\Z")
_SENTENCE = re.compile(r"[.!?][\"')*_]*\s+(?=\S)")
_CLAUSE = re.compile(r"[,;—–(]\s+|\s-\s|\b(?:so|but|and|because|then)\s+")
_WORD = re.compile(r"[^\W\d_][\w'’\-]*")


def is_quoted(before: str, *, is_marked: bool) -> bool:
    """Tell whether what stands before calls says that they are quoted.

    Args:
        before: the text up to them, its last `LEAD_CHARS` at least.
        is_marked: they stand between the marks of calls.
    """
    text = before[-LEAD_CHARS:]
    above, _, line = text.rpartition("\n")
    if line.strip() and _LINE_OF_OTHERS.match(line):
        return True
    if _OTHERS_SPEAK.search(text) or _PROMPT.match(above.rstrip().rpartition("\n")[2]) or _is_heredoc(text):
        return True
    return any(_leads_to_quote(lead.replace("’", "'"), is_marked=is_marked) for lead in _leads(text))


def acts(before: str) -> bool:
    """Tell whether what stands before calls says that they are the model's own, now."""
    return any(phrases.ACTS.search(lead.replace("’", "'")) for lead in _leads(before[-LEAD_CHARS:]))


def is_disowned(behind: str, *, is_own: bool) -> bool:
    """Tell whether the text behind calls goes on with their sentence, asks for leave, or says that they are not to run.

    With `is_own` the words before say that the model acts now, and the sentence may go on (“and then run the tests”).
    """
    behind = behind.lstrip().replace("’", "'")
    if any(each.search(behind) for each in (phrases.ASKS_LEAVE, phrases.DISOWNS)):
        return True
    line = behind.partition("\n")[0]
    return goes_on(behind) and not (is_own and not phrases.UNREAL.search(line) and not phrases.TOLD.search(line))


def leaves_choice(behind: str) -> bool:
    """Tell whether the text behind several calls lets the reader choose among them."""
    return phrases.CHOOSES.search(behind) is not None


def goes_on(behind: str) -> bool:
    """Tell whether a text goes on with the sentence before it."""
    return phrases.GOES_ON.match(behind.lstrip()) is not None


def are_alternatives(between: str) -> bool:
    """Tell whether the text between two calls offers a choice."""
    return phrases.OR.match(between) is not None


def is_joint(between: str) -> bool:
    """Tell whether the text between two calls only joins them: nothing, “and”, the next number of a list."""
    return phrases.JOINS.match(between) is not None


def claims_result(between: str) -> bool:
    """Tell whether the text between two calls tells what came of the first, which the model cannot know."""
    return not is_joint(between) and phrases.CLAIMS.match(between.lstrip()) is not None


def _is_heredoc(text: str) -> bool:
    begun = list(_HEREDOC.finditer(text))
    return bool(begun) and not re.search(rf"\n\s*{begun[-1][1]}\s*(?:\n|\Z)", text[begun[-1].end() :])


def _leads(text: str) -> list[str]:
    """Return the sentence that leads to a place, and behind an item of a list the one that leads to the list."""
    text = text.rstrip()
    while True:
        ornament, marker = _ORNAMENT.search(text), _MARKER.search(text)
        if ornament is not None:
            text = text[: ornament.start()].rstrip()
        elif marker is not None:
            text = _above_list(text[: marker.start()].rstrip())
        else:
            break
    line = text.rpartition("\n")[2]
    if not _ITEM.match(line):
        return [_sentence(line)]
    return [_sentence(_ITEM.sub("", line, count=1)), _sentence(_above_list(text).rpartition("\n")[2])]


def _above_list(text: str) -> str:
    """Return a text without the items, and what is indented or blank, at its end."""
    lines = text.split("\n")
    while lines and (_ITEM.match(lines[-1]) or not lines[-1].strip() or lines[-1][:2] == "  "):
        lines.pop()
    return "\n".join(lines)


def _sentence(line: str) -> str:
    line = line.strip()
    ends = [found.end() for found in _SENTENCE.finditer(line)]
    return line[ends[-1] :] if ends else line


def _leads_to_quote(lead: str, *, is_marked: bool) -> bool:
    if phrases.THINKS.match(lead):
        return False
    bare = lead.rstrip("*_`\"' ")
    tends = phrases.TENDS.search(lead) is not None
    if any(each.search(lead) for each in (phrases.FORBIDS, phrases.FOR_A_FILE)):
        return True
    if not tends and phrases.ANNOUNCES.search(lead):
        return True
    if bare.endswith("?"):
        return any(each.search(bare) for each in (phrases.ASKS_LEAVE, phrases.ASKS_ABOUT))
    if not bare or bare.endswith((".", "!")):
        return False
    if phrases.DEPENDS.search(lead) or (not is_marked and phrases.INSTRUCTS.search(lead)):
        return True
    if any(_is_act(part) for part in (_CLAUSE.split(lead)[-1], lead)):
        return False
    if phrases.UNREAL.search(lead) or phrases.TOLD.search(lead) or phrases.NAMES_FILE.search(lead):
        return True
    is_long = len(_WORD.findall(lead)) > _FEW_WORDS
    return is_long and phrases.IS_ENGLISH.search(lead) is not None and phrases.NAMES_CALL.match(lead) is None


def _is_act(part: str) -> bool:
    """Tell whether a sentence, or its last clause, says that the model acts now."""
    if phrases.RESOLVES.search(part) and not phrases.DENIES.search(part):
        return True
    if phrases.UNREAL.search(part):
        return False
    return bool(phrases.ACTS.search(part) or (phrases.TENDS.search(part) and not phrases.TOLD.search(part)))
