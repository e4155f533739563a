"""What an answer holds so far: text, thinking and calls, with what is still undecided held back.

Which calls a careful reader would run:

* Calls between marks (`<tool_call>`, `<function=…>`, `[TOOL_CALLS]`, …) are calls, wherever they are but in code, in a
  quotation, and next to words that quote or disown them (“the file contains:”, “until you agree”).
* JSON, fenced JSON and Python calls without marks are calls where they are on lines of their own (or behind a colon or a
  sentence, up to the end of the line), with at most a short remark behind them, no question behind them, and no word around
  them that makes them an example.  Those inside a longer explanation are examples: they stay text.
* A sentence that leads to calls says that the model acts now (“I'll read it:”, “Next, list the folder:”), or only names the
  call (“the fix:”); else one that tells of something (“the log says:”), or is long and English, introduces a quotation.  One
  that is whole before them (“The file has a bug.”) says nothing of them unless it announces a quotation.
* Of two between which is “or”, neither; of those behind a result that the model made up, none.
* What was meant as a call and has no reading, or two, is not run and stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise

from lmtui.core.messages import StreamChunk, TextChunk, ThinkingChunk
from lmtui.models.parsing.call_block import ParsedEntry
from lmtui.models.parsing.call_items import CUT
from lmtui.models.parsing.call_shapes import ParsedCall, RejectedCall


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_VERBS = (
    r"(?:read|list|create|write|open|check|run|call|look|search|find|edit|update|change|fix|add|get|show|make|use|view|start|begin"
    r"|execute|inspect|try|test|verify|replace|rename|remove|delete|move|copy|build|install|locate|examine|review|apply|fetch"
    r"|invoke)(?!\w)"
)
_NO_GERUND = r"(?:no|some|any|every)thing|following|during|according|string|including|existing|regarding|assuming|supposing"
_AT_FIRST = (
    r"\A\W*(?:(?:ok(?:ay)?|sure|now|then|next|first|second|third|finally|also|and|great|alright|good|yes|right|so"
    r"|as requested|again|step \d+|plan|todo|action)[,:.!]*\s+)*"
)
_OF_WORK = r"\b(?:steps?|calls?|actions?|commands?|tools?|time|files?|one|things?|next|is|left|here)\b"

# What says that the model acts now: “I'll”, “let me”, “reading the file”, “next, list”.
ACTS = _pattern(
    r"\b(?:I|we)(?:'ll| will|'m| am|'re| are|'d (?:like|better)| would like)\b",
    r"\blet(?:'s| me| us)\b|\bhere (?:it comes|(?:you|we) go|goes)\b",
    r"\b(?:I|we)(?: (?:now|first|then|also|next|just|still|only|simply|can|can now|therefore))* (?:need|want"
    rf"|have to|must|should|shall|plan to|intend|try|do|go|set|put|take|ask|repeat|retry|{_VERBS})\b",
    rf"{_AT_FIRST}(?:(?!(?:{_NO_GERUND})\b)[a-z]{{2,}}ing\b(?! \w+(?: \w+)? (?:is|was|means)\b)|{_VERBS})",
)
# What says so without doubt, unless it is denied.
RESOLVES = _pattern(
    r"\b(?:I'll|I will|let me|let's|we'll|I(?: a|')m (?:now )?(?:going to|\w{2,}ing)"
    r"|(?:I|we)(?: now| first)? (?:need|want|have|should|must) to)\b"
    r"(?!.{0,80}\b(?:how|example|sample|format|syntax)\b.{0,40}\b(?:works?|looks?|would|like)\b)"
)
# What acts if nothing else is told: “the next step is to read”, “now the tests”, “here is the call with”.
TENDS = _pattern(
    rf"{_OF_WORK}.{{0,30}}\bto (?:first )?{_VERBS}",
    r"\A\W*(?:so |and |ok(?:ay)?,? )?(?:now|next|then|finally|on to)\b",
    r"\A\W*(?:\w+\W+)?here(?: is|'s) (?:the|my) (?:\w+ ){0,2}(?:call|action|command|step|fix|edit|change)\b",
)
# What only names the call: “the tool call:”, “here's the fix:”, “and the second one:”.
NAMES_CALL = _pattern(
    r"\A\W*(?:(?:and|then|now|so|sure|ok(?:ay)?|here(?: is|'s| are)?|this is|below is|my|the|a|an|its?|json|for|to|in|of|new"
    r"|next|first|second|third|last|final|other|same|corrected|fixed|right|proper|needed|required|necessary|actual|tool"
    r"|function|action|one|step|it|them|is|this|read|list|write|run|do|make|create|get|that|file|files|\d+)[\s,:'`\"]+)*"
    r"(?:calls?|actions?|tools?|functions?|steps?|commands?|fix|edits?|changes?|requests?|ones?|files?|json|it)"
    r"(?: \w+)?\W*\Z"
)
DENIES = _pattern(
    r"\b(?:not|never|cannot|refus\w*|avoid\w*|hypothetical\w*|instead of|rather than|supposed to|suggest\w*|propos\w*"
    r"|recommend\w*|pending|forbidden|advise\w*|approval|permission)\b",
    r"\b(?:would|could|might|may)\b(?! like to)|n't\b",
)
# What says that it does not act, or not now: “the previous call”, “yesterday”.
UNREAL = _pattern(
    DENIES.pattern,
    r"\b(?:earlier|previously|yesterday|already|example|for instance|in the past)\b|\be\.g\.",
    r"\b(?:the|my|your|its|their|a) (?:previous|last|earlier|original|failed|wrong|old)"
    r" (?:call|answer|message|command|turn|attempt|run|request|tool|action|output|result|response|session)\b",
)
# What tells: of the past, of what others sent, of what a file holds, of how things may be written.
TELLS = _pattern(
    r"\b(?:was|were|been|did|had|said|says?|sent|ran|made|prints?|printed|logs?|logged|returns?|returned|contain(?:s|ed)?"
    r"|contents?|holds?|held|reads|expect\w*|shows|showed|shown|found|received|wrote|written|writes|report\w*|produce\w*|reply"
    r"|repli(?:es|ed)|respon\w*|answer\w*|gives|gave|given|looks? like|looked|stored|stands|stood|pasted|quote[sd]?"
    r"|documented|documentation|docs|recorded|captured|generate[sd]|emits|emitted|output\w*|result\w*|transcript\w*|excerpt\w*|sample\w*|example\w*|fixture\w*"
    r"|snippet\w*|format|syntax|schema|template|prompt|payload\w*|history|diff|patch|comments?|issue|ticket|readme|previous|past"
    r"|form|shape|notation|protocol|spec(?:ification)?|manual|guide|tutorial|usage|demo\w*|illustrat\w*|included|such as"
    r"|something like|like (?:this|so|that)|as follows|either|alternative\w*|option\w*|ways|choices|possibilit\w*"
    r"|(?:can|may) be|you (?:can|could|may|might|should|would|need|must|have|want|had|wrote)|one (?:can|could|may|might|would)"
    r"|users can|(?:two|three) calls|your (?:message|request|input|code|test|model|agent|config\w*)|before|after|actual|wrong"
    r"|incorrect)(?!\w)",
    r"\blines? \d+|\A\W*(?:old|new|right|good|bad|input|[A-Z]|case \w+|test case \w+)\W*:\W*\Z"
    r"|\b(?:assistant|model|user)\b[^:*]{1,80}:\Z"
    r"|\bI (?:can |now |can now )?(?:see|notice|spot)\b",
)
# What names a file, as one does before its content.
NAMES_FILE = _pattern(
    r"\b(?:file|document|page|script|mail|e-?mail|agent)\b[^:]{0,80}:\Z"
    r"|[`\"']?[\w/\-]+\.(?:md|txt|json|jsonl|ya?ml|toml|py|js|ts|html|log|rst|sh)[`\"']?:\Z",
)
# What makes it hang on something that has not happened, or on the reader.
DEPENDS = _pattern(
    r"\A\W*(?:but |and |or )?(?:if|unless|until|once|suppose|imagine|assuming|assume)\b",
    r"\b(?:if|once|when|after|until|unless) (?:you|the user)\b",
    r"\b(?:once|after|until) .{0,60}\b(?:confirm\w*|approv\w*|agree\w*|allow\w*|pass|passes|done|green|finish\w*)\b",
    r"\bplease (?:confirm|approve|check|review|verify|answer)\b|\bconfirm first\b",
)
INSTRUCTS = _pattern(
    r"\bto [^\n:]{2,120}, (?:please )?(?:write|run|use|call|send|type|enter|execute|do|try|say|put|paste)\b",
    r"\b(?:in|into|to|on|at) your\b|\byourself\b",
)
ANNOUNCES = _pattern(
    r"\A\W*(?:below|above|the following|here|this|these|that|it|what follows)\b[^\n]{0,40}"
    r"\b(?:is|are|was|were|shows?|follows?)\b[^\n]{0,60}"
    r"\b(?:contents?|outputs?|results?|examples?|samples?|excerpts?|logs?|responses?|files?|transcripts?|format|templates?"
    r"|snippets?|documentation|diff|quotes?|text|pages?|emails?)\b",
    r"\bis as follows\b|\blooks? like (?:this|so|that)\W*\Z",
    r"\b(?:read|see|find|found|has|shows?|contains|holds|consists of) (?:only |just )?(?:the following|this|one|two|three|\d+"
    r"|a single) (?:text|lines?|message|words?|entry|entries|records?|calls?|instructions?)\b",
    r"\A\W*(?:for example|examples?|an example|samples?)\b|\bhere is how\b.{0,80}\blooks\b",
    r"\b(?:add|put|paste|save|copy|write) (?:this|it|the following) (?:to|in|into|as)\b",
    r"\b(?:do not|don't|never|should not|must not|will not|won't|cannot|can't)"
    r" (?:run|call|use|send|write|do|execute) (?:this|that|these|the following|it|such|any)\b",
)
ASKS_LEAVE = _pattern(
    r"\b(?:(?:should|shall|may|can|could|must|do) (?:I|we)\b|(?:would|do|could|will|can|did) you\b"
    r"|are you (?:ok(?:ay)?|sure|fine)|is (?:it|that|this) (?:ok(?:ay)?|fine|all right|alright)"
    r"|(?:ok(?:ay)?|agreed|right|proceed|go ahead|confirm|deal))\b"
    r"(?![^\n?]{0,60}\b(?:anything|something) (?:else|more)\b)[^\n?]*\?|\A\W*\?"
)
ASKS_ABOUT = _pattern(
    r"\b(?:what|how|why|which|is|does|do|did|are|was|were)\b[^?]{0,200}\b(?:this|that|these|those|the following)\b[^?]{0,200}\?"
)
DISOWNS = _pattern(
    r"\bI (?:have not|haven't|did not|didn't|will not|won't|do not|don't|cannot|can't|never|would not|wouldn't|am not"
    r"|refuse to) (?:\w+ )?(?:run|ran|done|do|did|follow\w*|call\w*|execute\w*|made|make|sent|send|allowed|obey)\b",
    r"\bI(?:'ll| will| am|'m)? (?:ignor\w+|leave (?:it|this)|left it|hold)\b|\b(?:stop|wait) here\b"
    r"|\buntil you\b|\b(?:inject|attack)\w*|\bneither (?:has|was|is|of)\b|\bnone of (?:them|these|this)\b"
    r"|\bnothing was (?:run|sent)\b|\bfor your (?:word|permission|approval|confirmation|go-ahead|answer|decision)\b",
    r"\b(?:has|have|was|were|is|are) not (?:been )?(?:run|made|executed|sent|allowed)\b|\bnot (?:from|part of) you",
    r"\b(?:the|this|that) (?:call|command|request) (?:above )?(?:is|was|would)\b|\bjust say\b",
    r"\b(?:tell me|let me know) (?:to|which|before|(?:if|whether) (?:I|this|that|it|you (?:agree|approve|want|would)))\b",
    r"\(y/n\)|\[y/n\]|\bis (?:how|what) (?:a|an|the|such|it|this|that|one|calls?)\b|\bthat is all of it\b",
    r"\b(?:just|only) (?:an example|documentation)\b",
)
_NEW_SENTENCE = (
    r"i|i'll|then|now|next|let|this|these|ok|okay|done|waiting|reading|running|checking|will|after|json|tool|tool_call|assistant"
    r"|please|sure|note|hope|once|first|it|we|thanks|thank|that"
)
# What goes on with a sentence: it begins with a small letter, and not with a word that careless writers begin with.
GOES_ON = re.compile(rf"[\"'”’)*_`]*\s*(?:(?!(?i:{_NEW_SENTENCE})\b)[a-z]+[a-z']*(?:[,;:]? \S|[,;:]\n)|[”»])")
# What lets the reader choose among several calls before it.
CHOOSES = _pattern(r"\bwhich (?:one )?(?:(?:do |would |should )?(?:you|I|we)\b|of (?:them|these|the)\b)")
OR = _pattern(r"\W*(?:or|either|alternatively|otherwise|or else|versus|vs)\b\W*\Z")
# What only joins two calls: nothing, “and”, the next number of a list.
JOINS = _pattern(
    r"\W*(?:(?:and|then|also|next|and then|plus|followed by|afterwards?)\W*)?\Z",
    r"\W*?\n[ \t]*(?:\d{1,3}[.)]|[-*+•]|\(?[a-z]\))\s[^\n]{0,80}\Z|\s*(?:\d{1,3}[.)]|[-*+•])\s*\Z",
)
_CLAIMED = (
    r"(?:contains?|is|are|was|were|shows?|showed|returned|says?|said|prints?|printed|has|had|exists?|succeed(?:s|ed)?|fail(?:s|ed)?"
    r"|works?|worked|pass(?:es|ed)?)\b"
)
_THINGS = (
    r"(?:files?|outputs?|results?|commands?|tests?|folders?|directory|directories|contents?|response|tool|call|listing|search|build"
    r"|script|time|program|server|package)\b"
)
# What tells, between two calls, what came of the first: a heading, a sentence about it, or one bare word.
CLAIMS = _pattern(
    r"\A\W*(?:(?:tool |function |call |command |shell )?(?:results?|outputs?|responses?|stdout|answer|returned)\b\W{0,4}:"
    r"|```\w*(?:output|result|response)\w*"
    r"|(?:(?:ok(?:ay)?|great|good|perfect|done|so|now|as expected)\W{1,3}){0,2}"
    rf"(?:(?:the|this|that|all|both) (?:current |new |\w+ed )?{_THINGS}(?![^\n.]{{0,80}}\bwill\b)[^\n.]{{0,80}}\b{_CLAIMED}"
    rf"|(?:it|this|that) {_CLAIMED}"
    rf"|there (?:is|are)\b(?!.{{0,80}}\bto {_VERBS})"
    r"|[^\n]{0,200}\b(?:I|we) (?:can |now |can now )?(?:see|found|got)\b)"
    r"|(`{3,})[^`]*\1\s*\Z|\S{0,79}[^\s.,:;!]\s*\Z)"
)
_IS_ENGLISH = _pattern(r"\b(?:the|of|this|that|with|for|you|it|is|are|and|to|by|from|my|your|at|I|was|not)\b")
_THINKS = re.compile(r"\W*(?:thought|reasoning|plan)\W*:", re.IGNORECASE)

LEAD_CHARS = 600
_FEW_WORDS = 3
_LINE_OF_OTHERS = re.compile(
    r"\s*(?:[>|]|[+\-](?=[<{\[])|\$\s|\d+\s*[|\t]|\d+:\s*\Z|\S+:\d+:|\[?\d\d:\d\d|\[?\d{4}-\d\d)"
    r"|.*(?:[\"'“‘(«]|\.{4,}\s*|\be\.g\.|\bi\.e\.)\Z|[^)\n]*\((?:[^)\n]{0,200}\([^)\n]*\))*[^)\n]*\Z"
)
_PROMPT = re.compile(r"[ \t]*(?:[\w~/@:.\]()-]*[$%]|[\w~/@:.\]()-]+#|PS [^\n>]{0,60}>|>>>) \S|[ \t]*File \"")
_OTHERS_SPEAK = re.compile(r"\bHTTP/[123](?:\.\d)?\b|(?:\A|\n)[ \t]*(?:User|Human):")
_HEREDOC = re.compile(r"<<-?\s*['\"]?([A-Za-z_]\w*)['\"]?")
_MARKER = re.compile(r"(?:\A|\n)[ \t]*(?:[-*+•]|\d{1,3}[.)]|\(?[a-z]\))\s*\Z")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)]|\(?[a-z]\))\s+")
_ORNAMENT = re.compile(r"(?:(?:\A|\n)[ \t]*(?:[-*_=]{3,}|#{1,6})|\*\*|__)\s*\Z")
_SENTENCE = re.compile(r"[.!?][\"')*_]*\s+(?=\S)")
_CLAUSE = re.compile(r"[,;—–(]\s+|\s-\s|\b(?:so|but|and|because|then)\s+")
_WORD = re.compile(r"[^\W\d_][\w'’\-]*")


def is_quoted(before: str, *, is_marked: bool) -> bool:
    """Tell whether what is before calls says that they are quoted.

    Args:
        before: the text up to them, its last `LEAD_CHARS` at least.
        is_marked: they are between the marks of calls.
    """
    text = before[-LEAD_CHARS:]
    above, _, line = text.rpartition("\n")
    if line.strip() and _LINE_OF_OTHERS.match(line):
        return True
    if _OTHERS_SPEAK.search(text) or _PROMPT.match(above.rstrip().rpartition("\n")[2]) or _is_heredoc(text):
        return True
    return any(_leads_to_quote(lead.replace("’", "'"), is_marked=is_marked) for lead in _leads(text))


def acts(before: str) -> bool:
    """Tell whether what is before calls says that they are the model's own, now."""
    return any(ACTS.search(lead.replace("’", "'")) for lead in _leads(before[-LEAD_CHARS:]))


def is_disowned(behind: str, *, is_own: bool) -> bool:
    """Tell whether the text behind calls continues with their sentence, asks for leave, or says that they are not to run.

    With `is_own` the words before say that the model acts now, and the sentence may go on (“and then run the tests”).
    """
    behind = behind.lstrip().replace("’", "'")
    if any(each.search(behind) for each in (ASKS_LEAVE, DISOWNS)):
        return True
    line = behind.partition("\n")[0]
    return GOES_ON.match(behind) is not None and not (is_own and not UNREAL.search(line) and not TELLS.search(line))


def _is_heredoc(text: str) -> bool:
    begun = list(_HEREDOC.finditer(text))
    return bool(begun) and not re.search(rf"\n\s*{begun[-1][1]}\s*(?:\n|\Z)", text[begun[-1].end() :])


def _leads(text: str) -> list[str]:
    """Return the sentence that leads to a place, and behind an item of a list the one that leads to the list."""
    text = re.sub(r"(?:\s{0,9}</\w{1,30}>){1,9}\s*\Z", "", text.rstrip()).rstrip()
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
    bare = lead.rstrip("*_`\"' ")
    if not bare or _THINKS.match(lead):
        return False
    if ANNOUNCES.search(lead) and not TENDS.search(lead):
        return True
    if bare.endswith("?"):
        return any(each.search(bare) for each in (ASKS_LEAVE, ASKS_ABOUT))
    if bare.endswith((".", "!")):
        return False
    if DEPENDS.search(lead) or (not is_marked and INSTRUCTS.search(lead)):
        return True
    if any(_is_act(part) for part in (_CLAUSE.split(lead)[-1], lead)):
        return False
    is_long = len(_WORD.findall(lead)) > _FEW_WORDS and _IS_ENGLISH.search(lead) is not None
    is_told = any(each.search(lead) for each in (UNREAL, TELLS, NAMES_FILE))
    return is_told or (is_long and NAMES_CALL.match(lead) is None)


def _is_act(part: str) -> bool:
    """Tell whether a sentence, or its last clause, says that the model acts now."""
    if RESOLVES.search(part) and not DENIES.search(part):
        return True
    return not UNREAL.search(part) and bool(ACTS.search(part) or (TENDS.search(part) and not TELLS.search(part)))


EVERY_CHARS = 256
MAX_PERIOD = 400
_WINDOW_CHARS = 8192
_NEEDLE_CHARS = 24
_TRIES = 6


class RepetitionGuard:
    """Takes a stream; `period` is the length of what repeats itself at its end, 0 while nothing does.

    The one who feeds it cuts the stream at `room` characters at most.
    """

    def __init__(self) -> None:
        self.period = 0
        self.room = EVERY_CHARS
        self._parts: list[str] = []
        self._tail = ""

    def passes(self, text: str) -> bool:
        """Take a text that does not reach the next place to look at; tell whether it was taken."""
        room = self.room - len(text)
        if room <= 0:
            return False
        self.room = room
        self._parts.append(text)
        return True

    def parts(self, text: str) -> Iterator[str]:
        """Cut a text where the stream is looked at; feed each part before the next is asked for."""
        at = 0
        while at < len(text):
            end = at + self.room
            yield text[at:end]
            at = end

    def feed(self, text: str, *, is_code: bool = False) -> bool:
        """Take at most `room` characters; tell whether the stream is to be stopped.  In code and in calls more is allowed."""
        self._parts.append(text)
        self.room -= len(text)
        if self.room > 0:
            return False
        self.room = EVERY_CHARS
        self._tail = (self._tail + "".join(self._parts))[-_WINDOW_CHARS:]
        self._parts.clear()
        self.period = _period(self._tail, 2 if is_code else 1)
        return self.period > 0


def _period(tail: str, factor: int) -> int:
    """Return the period in which the end of a text repeats itself often enough, else 0."""
    end = len(tail)
    needle = tail[-_NEEDLE_CHARS:]
    at = end - len(needle)
    for _ in range(_TRIES):
        at = tail.rfind(needle, 0, at + len(needle) - 1)
        if at < 0:
            return 0
        period = end - len(needle) - at
        if period > MAX_PERIOD:
            return 0
        size = _enough(tail[-period:]) * factor
        if end >= size + period and tail[end - size :] == tail[end - size - period : end - period]:
            return period
    return 0


def _enough(unit: str) -> int:
    """Return how many characters of repetition are too many, for what is repeated."""
    blank = unit.replace("\\n", "\n")
    if blank.isspace():
        return max(120 if "\n" in blank else 600, 60 * len(unit))
    if len(unit) >= 8 and sum(map(str.isalpha, unit)) >= 4:
        return max(500, 6 * len(unit))
    return 1600


def first_of_many(text: str, period: int) -> int:
    """Return where the first of the repetitions at the end of a text ends."""
    start = max(len(text) - period, 0)
    while start >= period and text[start - period : start] == text[start : start + period]:
        start -= period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return min(start + period, len(text))


REMARK_CHARS = 300
_SAME_IN_A_ROW = 4
_EXAMPLE = _pattern(
    r"\b(?:for example|for instance|an example|examples?:|e\.g\.|would look like|looks like this|look like this|in this format"
    r"|in the format|following format|format is|syntax is|hypothetical|instead of"
    r"|(?:do not|don't|never|should not|shouldn't|must not|mustn't) (?:run|call|use|send|write|do)"
    r"|would have been|you said|you sent)\b"
)
_IN_DATA = re.compile(r"""(?:^|[{\[,])\s*"[^"\n]{0,80}"\s*:\Z|[\]}]\s*,\Z|\[\Z""", re.MULTILINE)
_STRAY_END = re.compile(r"</(?:parameter|arg_value|param)>")


@dataclass(slots=True)
class _Part:
    """Text, or a run of calls that nothing has decided yet; `text` is what it was."""

    text: str = ""
    entries: list[ParsedEntry] = field(default_factory=list)
    is_marked: bool = False
    is_quoted: bool = False
    is_own: bool = False


@dataclass(slots=True)
class _Kept:
    """Calls that count, with the text they were, and where in the text they was."""

    place: int
    entries: list[ParsedEntry]
    raw: str


class AnswerBuilder:
    """Collects what the scanner finds and gives it out as pieces.

    Args:
        remark_chars: how much text may be behind calls without marks.
    """

    def __init__(self, remark_chars: int = REMARK_CHARS) -> None:
        self.pieces: list[StreamChunk] = []
        self.thinking: list[str] = []
        self.is_native = False
        self._remark_chars = remark_chars
        self._text: list[str] = []
        self._space = ""
        self.ends_with_call = False  # no text is behind the last call
        self.skips_space = False  # the white space that comes next is dropped
        self._held: list[_Part] = []
        self._remark_size = 0
        self._kept: list[_Kept] = []
        self._seen: set[tuple[str, str]] = set()
        self._repeated = 0  # how many of the last calls in a row were repetitions
        self._since = 0
        self._quoted: list[ParsedEntry] = []  # the calls that stay text
        self._was_quoted = False  # the last calls were
        self._is_invented = False  # all that follows answers to invented results

    @property
    def has_meant(self) -> bool:
        """Tell whether the last calls, as far as can be told yet, are the model's own."""
        return (bool(self._kept) or any(part.entries for part in self._held)) and not self._was_quoted

    @property
    def quoted(self) -> list[ParsedCall | RejectedCall]:
        """Return the calls that stay text."""
        return [each for entry in self._quoted for each in entry.found]

    @property
    def is_blank(self) -> bool:
        """Tell whether the text is empty."""
        return not any(each.strip() for each in self._text)

    def say(self, text: str) -> None:
        """Take text of the answer."""
        if not self._held:
            self._out(text)
            return
        self._held.append(_Part(text))
        self._remark_size += len(text if self._remark_size else text.lstrip())
        if self._remark_size > self._remark_chars:
            self._release(are_calls=False)

    def think(self, text: str) -> None:
        """Take thinking."""
        if text:
            self.thinking.append(text)
            self.pieces.append(ThinkingChunk(text))

    def call(self, entries: list[ParsedEntry], raw: str, *, is_marked: bool) -> None:
        """Take a run of calls and the text that they were."""
        before = self._before()
        is_example = is_quoted(before, is_marked=is_marked)
        is_example = is_example or (self._was_quoted and bool(JOINS.match(before) or GOES_ON.match(before.lstrip())))
        if not is_marked and not is_example:
            is_example = any(each.search(before[-200:].rstrip().rpartition("\n\n")[2]) for each in (_EXAMPLE, _IN_DATA))
        self._was_quoted = is_example
        self._held.append(_Part(raw, entries, is_marked, is_example, acts(before)))
        self._remark_size = 0

    def recall_as_thinking(self) -> None:
        """Make all text so far thinking: only the end of the thinking was marked, and it comes now."""
        self._release(are_calls=True)
        self.thinking.append(self._whole(with_calls=True) + self._space)
        self._text.clear()
        self._kept.clear()
        self._seen.clear()
        self._since, self._quoted, self._was_quoted, self._is_invented = 0, [], False, False
        self._space, self.ends_with_call = "", False

    def finish(self, *, is_over: bool = False) -> None:
        """Decide what is held; `is_over`: what came behind does not count, nor does the white space before it."""
        behind = "".join(part.text for part in self._held[self._last_call() + 1 :])
        self._release(are_calls="?" not in behind and not _EXAMPLE.search(behind))
        if self._space and not self.ends_with_call and not is_over:
            self._append(self._space)
            self._space = ""

    def text(self) -> str:
        """Return the text; with the server's own calls, what looked like calls is text too."""
        return self._whole(with_calls=self.is_native)

    def found(self) -> list[tuple[ParsedEntry, ParsedCall | RejectedCall]]:
        """Return the calls that count, and those that were refused."""
        if self.is_native:
            return []
        return [(entry, each) for kept in self._kept for entry in kept.entries for each in entry.found]

    def trim(self, period: int) -> None:
        """Keep the text up to the end of the first of its repetitions at the end."""
        text = "".join(self._text)
        self._text = [text[: first_of_many(text, period)].rstrip()]

    def _out(self, text: str) -> None:
        if self.skips_space:
            text = text.lstrip()
            self.skips_space = not text
        if self.ends_with_call and text:
            text = text.lstrip()
            if not text:
                return
            self.ends_with_call = False
            self._space = "\n\n" if self._text else ""
        if self._space:
            text, self._space = self._space + text, ""
        if text[-1:].isspace():
            body = text.rstrip()
            self._space = text[len(body) :]
            text = body
        if text:
            self._append(text)

    def _append(self, text: str) -> None:
        self._text.append(text)
        self.pieces.append(TextChunk(text))

    def _keep(self, entries: list[ParsedEntry], raw: str) -> None:
        """Count calls; what was refused among them stays text."""
        good = [all(isinstance(each, ParsedCall) for each in entry.found) for entry in entries]
        self._kept.append(_Kept(len(self._text), entries, raw))
        if not any(good):
            self._out(raw)
            return
        for entry, is_good in zip(entries, good, strict=True):
            if not is_good and not all(isinstance(each, RejectedCall) and each.why == CUT for each in entry.found):
                self.ends_with_call = True
                self._out(entry.raw)
        self.ends_with_call, self._space = True, ""

    def _last_call(self) -> int:
        return max((place for place, part in enumerate(self._held) if part.entries), default=-1)

    def _release(self, *, are_calls: bool) -> None:
        self._judge()
        held, self._held, self._remark_size = self._held, [], 0
        for part in held:
            if not part.entries:
                self._out(part.text)
            elif not part.is_quoted and (part.is_marked or are_calls):
                self._keep(part.entries, part.text)
                self._since = len(self._text)
            else:
                self._quoted += part.entries
                self._out(part.text)
                self._since = len(self._text)

    def _judge(self) -> None:
        """Judge the calls that are held by what is behind each of them."""
        was_disowned, behind = False, ""
        runs = [place for place, part in enumerate(self._held) if part.entries]
        has_choice = len(runs) > 1 and bool(CHOOSES.search(self._between(runs[-1], len(self._held))))
        for place, after in pairwise([*runs, len(self._held)]):
            part = self._held[place]
            part.is_quoted = part.is_quoted or has_choice or self._is_invented or (was_disowned and not acts(behind))
            behind = self._between(place, after)
            follower = self._held[after] if after < len(self._held) else None
            if follower is not None and OR.match(behind):
                part.is_quoted = follower.is_quoted = True
            elif not has_stray_end(behind) and (follower is None or not JOINS.match(behind)):
                was_disowned = not part.is_quoted and is_disowned(behind, is_own=part.is_own)
                part.is_quoted = part.is_quoted or was_disowned
            if not part.is_quoted and not JOINS.match(behind) and CLAIMS.match(behind.lstrip()):
                self._is_invented = True

    def _between(self, place: int, after: int) -> str:
        """Return the text behind a held run of calls, as much as is looked at however it came."""
        text = "".join(each.text for each in self._held[place + 1 : after])
        return text[: len(text) - len(text.lstrip()) + REMARK_CHARS]

    def _before(self) -> str:
        """Return the end of the text since the last calls."""
        size, parts = 0, [self._space]
        held = self._held[self._last_call() + 1 :]
        said = () if len(held) < len(self._held) else islice(reversed(self._text), len(self._text) - self._since)
        for text in chain((part.text for part in reversed(held)), said):
            parts.append(text)
            size += len(text)
            if size > LEAD_CHARS:
                break
        return "".join(reversed(parts))

    def is_loop(self, entry: ParsedEntry) -> bool:
        """Take note of a call as soon as it is whole; tell whether the model writes the same ones over and over."""
        for each in entry.found:
            if isinstance(each, ParsedCall):
                key = identity(each)
                self._repeated = self._repeated + 1 if key in self._seen else 0
                self._seen.add(key)
        return self._repeated >= _SAME_IN_A_ROW

    def _whole(self, *, with_calls: bool) -> str:
        if not with_calls or not self._kept:
            return "".join(self._text)
        parts: list[str] = []
        done = 0
        for kept in self._kept:
            parts += self._text[done : kept.place]
            done = kept.place
            if any(isinstance(each, ParsedCall) for entry in kept.entries for each in entry.found):
                parts.append(f"\n{kept.raw.strip()}\n")
        return "".join([*parts, *self._text[done:]]).strip("\n")


def identity(call: ParsedCall) -> tuple[str, str]:
    """Return what makes two calls the same call."""
    return call.spec.name, json.dumps(call.arguments, sort_keys=True)


def has_stray_end(text: str) -> bool:
    """Tell whether a parameter's closing tag is in the text: a value was longer than it seemed."""
    return bool(_STRAY_END.search(text))
