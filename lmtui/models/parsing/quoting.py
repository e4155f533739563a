"""Whether calls are the model's own or quoted: judged by the words that lead to them and those that are behind.

The judgement is about who acts and when.  “I'll read it:” and “Reading the file:” act now; “the log says:”, “you could call:”,
“the previous call was:” do not.  A sentence that is whole before the calls (“The file has a bug.”) says nothing of them unless
it announces a quotation.  What is not told in English is not judged.
"""

from __future__ import annotations

import re


def _any(table: str) -> str:
    """Return a pattern for the phrases of a table."""
    phrases = (re.escape(" ".join(each.split())).replace(r"\*", r"\w*").replace(r"\ ", r"\s+") for each in table.split("/"))
    return rf"\b(?:{'|'.join(phrases)})(?!\w)"


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_VERBS = _any(
    """read/list/create/write/open/check/run/call/look/search/find/edit/update/change/fix/add/get/show/make/use/view/start
    /execute/inspect/try/test/verify/replace/rename/remove/delete/move/copy/build/install/examine/review/apply/fetch"""
)
_FILLERS = r"(?: (?:now|first|then|also|next|just|still|only|can))*"
_AT_FIRST = (
    r"\A\W*(?:(?:ok(?:ay)?|sure|now|then|next|first|second|third|finally|also|and|great|alright|good|yes|right|so"
    r"|again|step \d+|plan|action)[,:.!]*\s+)*"
)
_GERUND = r"(?!(?:\w*thing|following|during|according|including|existing|assuming)\b)[a-z]{2,}ing\b"

# What says that the model acts now: “I'll”, “let me”, “reading the file”, “next, list”.
ACTS = _pattern(
    _any("I'll/I will/I'm/I am/let me/let's/let us/we'll/we will/we're/I would like to/I'd like to/here it comes/here we go"),
    rf"\b(?:I|we){_FILLERS} (?:need|want|have to|must|should|shall|plan to|try|do|go|put|take|repeat|retry|{_VERBS})\b",
    rf"{_AT_FIRST}(?:{_GERUND}|{_VERBS})",
)

# What acts if nothing else is told: “the next step is to read”, “now the tests”, “here is the call with”.
TENDS = _pattern(
    rf"\b(?:steps?|calls?|actions?|commands?|tools?|time|files?|one|things?|next|is|left|here)\b.{{0,30}}"
    rf"\bto (?:first )?{_VERBS}",
    r"\A\W*(?:so |and |ok(?:ay)?,? )?(?:now|next|then|finally|on to)\b",
    r"\A\W*(?:\w+\W+)?here(?: is|'s) (?:the|my) (?:\w+ ){0,2}(?:call|action|command|step|fix|edit|change)\b",
)

# What only names the call: “the tool call:”, “here's the fix:”, “and the second one:”.
NAMES_CALL = _pattern(
    r"\A\W*(?:(?:and|then|now|so|sure|ok(?:ay)?|here(?: is|'s| are)?|this is|below is|my|the|a|an|its?|json|for|to|in|of|new"
    r"|next|first|second|third|last|final|other|same|corrected|fixed|right|tool|function)[\s,:'`\"]+)*"
    r"(?:calls?|actions?|tools?|functions?|steps?|commands?|fix|edits?|changes?|requests?|ones?|files?|json|it)(?: \w+)?\W*\Z"
)

# What denies, or makes it hang on something that has not happened: “would”, “not”, “I suggest”, “if”.
DENIES = _pattern(
    _any(
        """not/never/cannot/refuse*/avoid*/hypothetical*/instead of/rather than/suggest*/propos*/recommend*/forbidden/advise*
        /approval/permission"""
    ),
    r"\b(?:would|could|might|may)\b(?! like to)|n't\b",
)
DEPENDS = _pattern(r"\A\W*(?:but |and |or )?(?:if|unless|until|once|suppose|imagine|assum\w+)\b|\bplease confirm\b")

# What tells: of the past, of what others sent, of what a file holds, of how things may be written.
TOLD = _pattern(
    _any(
        """was/were/told/said/say/says/sent/ran/made/printed/prints/log/logs/logged/returned/contain/contains/content/contents
        /holds/reads/wrote/written/gives/gave/pasted/quote*/document*/output*/result*/transcript*/sample*/example*/snippet*
        /format/syntax/looks like/payload*/history/readme/usage/template/prompt/either/option*/before/after/expected/wrong
        /previous/earlier/yesterday"""
    ),
    r"\blines? \d+|\A\W*(?:old|new|right|good|bad|input|[A-Z]|case \w+|test case \w+)\W*:\W*\Z",
)
NAMES_FILE = _pattern(r"[\w/\-]+\.[a-z]{2,5}[`\"']?:\Z")
IS_ENGLISH = _pattern(_any("the/of/this/that/with/for/you/it/is/are/and/to/by/from/my/your/at/I/was"))
INSTRUCTS = _pattern(
    r"\bto [^\n:]{2,120}, (?:please )?(?:write|run|use|call|send|type|enter|execute|do|try|say|put|paste)\b",
    r"\b(?:in|into|to|on|at) your\b|\byourself\b",
)

# What announces a quotation, even in a sentence that is whole.
ANNOUNCES = _pattern(
    r"\A\W*(?:below|above|the following|here|this|these|that|it|what follows)\b[^\n]{0,40}"
    r"\b(?:is|are|was|were|shows?|follows?)\b[^\n]{0,60}"
    r"\b(?:contents?|outputs?|results?|examples?|samples?|excerpts?|logs?|responses?|files?|transcripts?|format|text)\b",
    r"\bis as follows\b|\blooks? like (?:this|so|that)\W*\Z",
    r"\b(?:read|see|find|found|has|contains|holds|shows?) (?:only |just )?(?:the following|this|one|two|three|\d+)"
    r" (?:text|lines?|message|words?|entry|entries|instructions?)\b",
)
FOR_A_FILE = _pattern(r"\b(?:add|put|paste|save|copy|write) (?:this|it|the following) (?:to|in|into|as)\b")
ASKS = _pattern(
    r"\b(?:(?:should|shall|may|can|could|must|do) (?:I|we)\b|(?:would|do|could|will|can|did) you\b"
    r"|are you (?:ok(?:ay)?|sure|fine)|is (?:it|that|this) (?:ok(?:ay)?|fine|right)"
    r"|(?:ok(?:ay)?|agreed|right|proceed|go ahead|confirm|deal))\b"
    r"(?![^\n?]{0,60}\b(?:anything|something) (?:else|more)\b)[^\n?]*\?"
)
DISOWNS = _pattern(
    r"\bI (?:have not|haven't|did not|didn't|will not|won't|do not|don't|cannot|can't) (?:\w+ )?"
    r"(?:r[au]n|do|done|call\w*|make|made)\b|\b(?:tell me|let me know) (?:if|whether) (?:I|this|that|it)\b"
    r"|\bfor your (?:word|approval|confirmation|permission)\b|\(y/n\)",
)
ASKS_ABOUT = _pattern(
    r"\b(?:what|how|why|which|is|does|do|did|are|was|were)\b[^?]{0,200}\b(?:this|that|these|those|the following)\b[^?]{0,200}\?"
)
CHOOSES = _pattern(r"\bwhich (?:one|of|do|would|should)\b")
_NEW_SENTENCE = _any(
    """i/i'll/then/now/next/let/this/these/ok/okay/done/waiting/reading/running/checking/will/after/json/tool/tool_call
    /assistant/please/sure/note/hope/once/first/it/we/thanks/thank/that"""
)
# What goes on with a sentence: it begins with a small letter, and not with a word that careless writers begin with.
GOES_ON = re.compile(rf"[\"'”’)*_`]*\s*(?:(?i:(?!{_NEW_SENTENCE}))[a-z]+[a-z']*(?:[,;:]? \S|[,;:]\n)|[”»])")
JOINS = _pattern(
    r"\W*(?:(?:and|then|also|next|and then|plus|followed by|afterwards?)\W*)?\Z",
    r"\W*?\n[ \t]*(?:\d{1,3}[.)]|[-*+•]|\(?[a-z]\))\s[^\n]{0,80}\Z|\s*(?:\d{1,3}[.)]|[-*+•])\s*\Z",
)
# What tells, between two calls, what came of the first: a heading, a sentence about it, or one bare word.
CLAIMS = _pattern(
    r"\A\W*(?:(?:tool |function |call |command |shell )?(?:results?|outputs?|responses?|stdout|answer|returned)\b\W{0,4}:"
    r"|(?:(?:the|this|that|all|both) (?:\w+ )?(?:files?|outputs?|results?|commands?|tests?|folder|directory|contents?)"
    r"|it|this|that) (?:contains?|is|are|was|were|shows?|showed|returned|says?|printed|has|exists?|succeeded|failed"
    rf"|pass(?:es|ed)?)\b|there (?:is|are)\b(?!.{{0,80}}\bto {_VERBS})|[^\n]{{0,200}}\b(?:I|we) (?:can |now )?see\b"
    r"|(`{3,})[^`]*\1\s*\Z|\S{0,79}[^\s.,:;!]\s*\Z)"
)


LEAD_CHARS = 600

_LINE_OF_OTHERS = re.compile(
    r"\s*(?:[>|]|[+\-](?=[<{\[])|\$\s|\d+\s*[|\t]|\d+:\s*\Z|\S+:\d+:|\[?\d\d:\d\d|\[?\d{4}-\d\d)"
    r"|.*(?:[\"'“‘(«]|\.{4,}\s*|\be\.g\.|\bi\.e\.)\Z|[^)\n]*\((?:[^)\n]{0,200}\([^)\n]*\))*[^)\n]*\Z"
)
_PROMPT = re.compile(r"[ \t]*(?:[\w~/@:.\]()-]*[$%]|[\w~/@:.\]()-]+#|PS [^\n>]{0,60}>|>>>) \S|[^\n]*<<-?\s*['\"]?\w+['\"]?\Z")
_THINKS = re.compile(r"\W*(?:thought|reasoning|plan)\W*:", re.IGNORECASE)
_OTHERS_SPEAK = re.compile(r"\bHTTP/[123](?:\.\d)?\b|(?:\A|\n)[ \t]*(?:User|Human):")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)]|\(?[a-z]\))(?:\s+|\Z)")
_ORNAMENT = re.compile(r"(?:(?:\A|\n)[ \t]*(?:[-*_=]{3,}|#{1,6})|\*\*|__)\s*\Z")
_SENTENCE = re.compile(r"[.!?][\"')*_]*\s+(?=\S)")
_CLAUSE = re.compile(r"[,;—–(]\s+|\s-\s|\b(?:so|but|and|because|then)\s+")
_WORDS = re.compile(r"[^\W\d_][\w'’\-]*\W+[^\W\d_]")


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
    if _OTHERS_SPEAK.search(text) or _PROMPT.match(above.rstrip().rpartition("\n")[2]):
        return True
    return any(_leads_to_quote(lead, is_marked=is_marked) for lead in _leads(text))


def acts(before: str) -> bool:
    """Tell whether what is before calls says that they are the model's own, now."""
    return any(ACTS.search(lead) for lead in _leads(before[-LEAD_CHARS:]))


def is_disowned(behind: str, *, is_own: bool) -> bool:
    """Tell whether the text behind calls continues with their sentence or asks for leave.

    With `is_own` the words before say that the model acts now, and the sentence may go on (“and then run the tests”).
    """
    behind = behind.lstrip().replace("’", "'")
    if ASKS.search(behind) or DISOWNS.search(behind):
        return True
    line = behind.partition("\n")[0]
    return goes_on(behind) and not (is_own and not DENIES.search(line) and not TOLD.search(line))


def leaves_choice(behind: str) -> bool:
    """Tell whether the text behind several calls lets the reader choose among them."""
    return CHOOSES.search(behind) is not None


def goes_on(behind: str) -> bool:
    """Tell whether a text continues with the sentence before it."""
    return GOES_ON.match(behind.lstrip()) is not None


def is_joint(between: str) -> bool:
    """Tell whether the text between two calls only joins them: nothing, “and”, the next number of a list."""
    return JOINS.match(between) is not None


def claims_result(between: str) -> bool:
    """Tell whether the text between two calls tells what came of the first, which the model cannot know."""
    return not is_joint(between) and CLAIMS.match(between.lstrip()) is not None


def _leads(text: str) -> list[str]:
    """Return the sentence that leads to a place, and behind an item of a list the one that leads to the list."""
    text = text.replace("’", "'").rstrip()
    while (ornament := _ORNAMENT.search(text)) is not None:
        text = text[: ornament.start()].rstrip()
    line = text.rpartition("\n")[2]
    item = _ITEM.match(line)
    if item is None:
        return [_sentence(line)]
    lines = text.split("\n")
    while lines and (_ITEM.match(lines[-1]) or not lines[-1].strip() or lines[-1][:2] == "  "):
        lines.pop()
    return [_sentence(line[item.end() :]), _sentence(lines[-1] if lines else "")]


def _sentence(line: str) -> str:
    return _SENTENCE.split(line.strip())[-1]


def _leads_to_quote(lead: str, *, is_marked: bool) -> bool:
    if _THINKS.match(lead):
        return False
    bare = lead.rstrip("*_`\"' ")
    if FOR_A_FILE.search(lead) or (ANNOUNCES.search(lead) and not TENDS.search(lead)):
        return True
    if bare.endswith("?"):
        return any(each.search(bare) for each in (ASKS, ASKS_ABOUT))
    if not bare or bare.endswith((".", "!")):
        return False
    if DEPENDS.search(lead) or (not is_marked and INSTRUCTS.search(lead)):
        return True
    if any(_is_act(part) for part in (_CLAUSE.split(lead)[-1], lead)):
        return False
    if DENIES.search(lead) or TOLD.search(lead) or NAMES_FILE.search(lead):
        return True
    return _WORDS.search(lead) is not None and IS_ENGLISH.search(lead) is not None and NAMES_CALL.match(lead) is None


def _is_act(part: str) -> bool:
    """Tell whether a sentence, or its last clause, says that the model acts now."""
    if DENIES.search(part):
        return False
    return bool(ACTS.search(part) or (TENDS.search(part) and not TOLD.search(part)))
