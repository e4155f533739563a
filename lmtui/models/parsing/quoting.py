"""Whether calls are the model's own or quoted: judged by the words that lead to them and those that are behind.

A sentence that leads to calls (“I'll read it:”, “Next, list the folder:”) has to say that the model acts now, or only to name
the call (“the fix:”); else it introduces a quotation (“The log says:”).  A sentence that is whole before the calls (“The file
has a bug.”) says nothing of them unless it announces a quotation.  What is not told in English is not judged.
"""

from __future__ import annotations

import re


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
    r"(?:calls?|actions?|tools?|functions?|steps?|commands?|fix|edits?|changes?|requests?|ones?|json|assistant)"
    r"(?: (?!print|can|could|may|might|would)\w+)?\W*\Z"
)
DENIES = _pattern(
    r"\b(?:not|never|cannot|refus\w*|avoid\w*|hypothetical\w*|instead of|rather than|supposed to|suggest\w*|propos\w*"
    r"|recommend\w*|pending|forbidden|advise\w*|approval|permission)\b",
    r"\b(?:would|could|might|may)\b(?! like to)|n't\b",
)
# What says that it does not act, or not now: “the previous call”, “yesterday”.
UNREAL = _pattern(
    DENIES.pattern,
    r"\b(?:earlier|previously|yesterday|already|example|for instance|in the past|told)\b|\be\.g\.",
    r"\b(?:the|my|your|its|their|a) (?:previous|last|earlier|original|failed|wrong|old|other)"
    r" (?:agent|call|answer|message|command|turn|attempt|run|request|tool|action|output|result|response|session)\b",
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
ASKS = _pattern(r"(?:\A|[.!\n])(?![^.!?\n]*\b(?:any|some)thing (?:else|more)\b)[^.!?\n]*\?")
DISOWNS = _pattern(
    r"\bI (?:have not|haven't|did not|didn't|will not|won't|do not|don't|cannot|can't|never|would not|wouldn't|am not"
    r"|refuse to) (?:\w+ )?(?:run|ran|done|do|did|follow\w*|call\w*|execute\w*|made|make|sent|send|allowed|obey)\b",
    r"\bI(?:'ll| will| am|'m)? (?:ignor\w+|leave (?:it|this)|left it|hold)\b|\b(?:stop|wait) here\b"
    r"|\buntil you\b|\b(?:inject|attack)\w*|\bneither\b|\bnone of (?:them|these|this)\b|\bnothing was (?:run|sent)\b",
    r"\b(?:has|have|was|were|is|are) not (?:been )?(?:run|made|executed|sent|allowed)\b|\bnot (?:from|part of) you",
    r"\b(?:the|this|that) (?:call|command|request) (?:above )?(?:is|was|would)\b|\bfor your \w+|\bjust say\b",
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
    if any(each.search(behind) for each in (ASKS, DISOWNS)):
        return True
    return goes_on(behind) and not (is_own and not UNREAL.search(behind.partition("\n")[0]))


def goes_on(behind: str) -> bool:
    """Tell whether a text continues with the sentence before it."""
    return GOES_ON.match(behind.lstrip()) is not None


def is_joint(between: str) -> bool:
    """Tell whether the text between two calls only joins them: nothing, “and”, the next number of a list."""
    return JOINS.match(between) is not None


def claims_result(between: str) -> bool:
    """Tell whether the text between two calls tells what came of the first, which the model cannot know."""
    return not is_joint(between) and CLAIMS.match(between.lstrip()) is not None


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
    bare = lead.rstrip("*_`\"' ")
    if not bare or _THINKS.match(lead):
        return False
    if ANNOUNCES.search(lead) and not TENDS.search(lead):
        return True
    if bare.endswith(("?", ".", "!")):
        return bare.endswith("?")
    if DEPENDS.search(lead) or (not is_marked and INSTRUCTS.search(lead)):
        return True
    if any(_is_act(part) for part in (_CLAUSE.split(lead)[-1], lead)):
        return False
    is_short = len(_WORD.findall(lead)) <= _FEW_WORDS
    is_judged = lead.rstrip("*_ ").endswith(":") if is_short else _IS_ENGLISH.search(lead) is not None
    return is_judged and NAMES_CALL.match(lead) is None


def _is_act(part: str) -> bool:
    """Tell whether a sentence, or its last clause, says that the model acts now."""
    if RESOLVES.search(part) and not DENIES.search(part):
        return True
    return not UNREAL.search(part) and bool(ACTS.search(part) or TENDS.search(part))
