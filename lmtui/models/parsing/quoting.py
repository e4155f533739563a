"""Whether calls are the model's own or quoted: judged by the words that lead to them and those that are behind.

The judgement is about who acts and when.  “I'll read it:” and “Reading the file:” act now; “the log says:”, “you could call:”,
“the previous call was:”, “if you agree, I run:” do not.  A sentence that is whole before the calls (“The file has a bug.”) says
nothing of them unless it announces a quotation.  What is not told in English is not judged.
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
    /begin/execute/inspect/try/test/verify/replace/rename/remove/delete/move/copy/build/install/locate/examine/review/apply
    /fetch/invoke"""
)
_FILLERS = r"(?: (?:now|first|then|also|next|just|still|only|simply|can|can now|therefore))*"
_NO_GERUND = _any(
    "nothing/something/anything/everything/following/during/according/string/including/existing/regarding/assuming/supposing"
)
_AT_FIRST = (
    r"\A\W*(?:(?:ok(?:ay)?|sure|now|then|next|first|second|third|finally|also|and|great|alright|good|yes|right|so"
    r"|as requested|again|step \d+|plan|todo|action)[,:.!]*\s+)*"
)
_GERUND = rf"(?!{_NO_GERUND})[a-z]{{2,}}ing\b(?! \w+(?: \w+)? (?:is|was|means)\b)"

# What says that the model acts now: “I'll”, “let me”, “reading the file”, “next, list”.
ACTS = _pattern(
    _any(
        """I'll/I will/I'm going to/I'm/I am/let me/let's/let us/we'll/we will/we are going to/we're/I would like to
        /I'd like to/we'd like to/I'd better/here it comes/here you go/here goes/here we go"""
    ),
    rf"\b(?:I|we){_FILLERS} (?:need|want|have to|must|should|shall|plan to|intend|try|do|go|set|put|take|ask|repeat"
    rf"|retry|{_VERBS})\b",
    rf"{_AT_FIRST}(?:{_GERUND}|{_VERBS})",
)

# What only names the call: “the tool call:”, “here's the fix:”, “and the second one:”.
NAMES_CALL = _pattern(
    r"\A\W*(?:(?:and|then|now|so|sure|ok(?:ay)?|here(?: is|'s| are)?|this is|below is|my|the|a|an|its?|json|for|to|in|of|new"
    r"|next|first|second|third|last|final|other|same|corrected|fixed|right|proper|needed|required|necessary|actual|tool"
    r"|function|action|one|step|it|them|is|this|read|list|write|run|do|make|create|get|that|file|files|\d+)[\s,:'`\"]+)*"
    r"(?:calls?|actions?|tools?|functions?|steps?|commands?|fix|edits?|changes?|requests?|ones?|files?|json|it)(?: \w+)?\W*\Z"
)

# What says so without doubt, unless it is denied.
RESOLVES = _pattern(
    r"\b(?:I'll|I will|let me|let's|we'll|I(?: a|')m (?:now )?(?:going to|\w{2,}ing)"
    r"|(?:I|we)(?: now| first)? (?:need|want|have|should|must) to)\b"
    r"(?!.{0,80}\b(?:how|example|sample|format|syntax)\b.{0,40}\b(?:works?|looks?|would|like)\b)"
)

# What acts if nothing else is told: “the next step is to read”, “now the tests”, “here is the call with”.
TENDS = _pattern(
    rf"\b(?:steps?|calls?|actions?|commands?|tools?|time|files?|one|things?|next|is|left|here)\b.{{0,30}}"
    rf"\bto (?:first )?{_VERBS}",
    r"\A\W*(?:so |and |ok(?:ay)?,? )?(?:now|next|then|finally|on to)\b",
    r"\A\W*(?:\w+\W+)?here(?: is|'s) (?:the|my) (?:\w+ ){0,2}(?:call|action|command|step|fix|edit|change)\b",
)

# What denies: “would”, “not”, “I suggest”.
DENIES = _pattern(
    _any(
        """not/never/cannot/refuse*/avoid*/hypothetical*/instead of/rather than/supposed to/suggest*/propos*/recommend*/pending
        /forbidden/advise*/approval/permission"""
    ),
    r"\b(?:would|could|might|may)\b(?! like to)|n't\b",
)

# What says that it does not act, or not now: “the previous call”, “yesterday”.
UNREAL = _pattern(
    DENIES.pattern,
    _any("earlier/previously/yesterday/already/example/for instance/e.g/in the past"),
    r"\b(?:the|my|your|its|their|a) (?:previous|last|earlier|original|failed|wrong|old)"
    r" (?:call|answer|message|command|turn|attempt|run|request|tool|action|output|result|response|session)\b",
)

# What makes it hang on something that has not happened.
DEPENDS = _pattern(
    r"\A\W*(?:but |and |or )?(?:if|unless|until|once|suppose|imagine|assuming|assume)\b",
    r"\b(?:if|once|when|after|until|unless) (?:you|the user)\b",
    r"\b(?:once|after|until) .{0,60}\b(?:confirm\w*|approv\w*|agree\w*|allow\w*|pass|passes|done|green|finish\w*)\b",
    r"\bplease (?:confirm|approve|check|review|verify|answer)\b|\bconfirm first\b",
)

# What tells: of the past, of what others sent, of what a file holds, of how things may be written.
TOLD = _pattern(
    _any(
        """was/were/been/did/had/said/say/says/sent/ran/made/print/prints/printed/log/logs/logged/return/returns/returned
        /contain/contains/contained/content/contents/hold/holds/held/reads/expect*/shows/showed/shown/found/received/wrote
        /written/writes/report*/produce*/reply/replies/replied/respon*/answer*/gives/gave/given/look like/looks like/looked
        /stored/stands/stood/pasted/quote/quotes/quoted/documented/documentation/docs/recorded/captured/generated/generates
        /emits/emitted/output*/result*/transcript*/excerpt*/sample*/example*/fixture*/snippet*/format/syntax/schema/template
        /prompt/payload*/history/diff/patch/comment/comments/issue/ticket/readme/previous/past/form/shape/notation/protocol
        /specification/spec/manual/guide/tutorial/usage/demo*/illustrat*/included/such as/something like/like this/like so
        /like that/as follows/either/alternative*/option*/ways/choices/possibilit*"""
    ),
    _any(
        """can be/may be/you can/you could/you may/you might/you should/you would/you need/you must/you have/you want/you had
        /you wrote/one can/one could/one may/one might/one would/users can/two calls/three calls/your message/your request
        /your input/your code/your test/your model/your agent/your config*/before/after/expected/actual/wrong/incorrect
        /correct answer"""
    ),
    r"\blines? \d+|\A\W*(?:old|new|right|good|bad|input|[A-Z]|case \w+|test case \w+)\W*:\W*\Z",
    r"\b(?:assistant|model|user)\b[^:*]{1,80}:\Z",
    r"\bI (?:can |now |can now )?(?:see|notice|spot)\b",
)
# What names a file, as one does before its content.
NAMES_FILE = _pattern(
    r"\b(?:file|document|page|script|mail|e-?mail|agent)\b[^:]{0,80}:\Z",
    r"[`\"']?[\w/\-]+\.(?:md|txt|json|jsonl|ya?ml|toml|py|js|ts|html|log|rst|sh)[`\"']?:\Z",
)

IS_ENGLISH = _pattern(_any("the/of/this/that/with/for/you/it/is/are/and/to/by/from/my/your/at/I/was"))
THINKS = re.compile(r"\W*(?:thought|reasoning|plan)\W*:", re.IGNORECASE)

INSTRUCTS = _pattern(
    r"\bto [^\n:]{2,120}, (?:please )?(?:write|run|use|call|send|type|enter|execute|do|try|say|put|paste)\b",
    r"\b(?:in|into|to|on|at) your\b|\byourself\b",
)
FOR_A_FILE = _pattern(r"\b(?:add|put|paste|save|copy|write) (?:this|it|the following) (?:to|in|into|as)\b")
ANNOUNCES = _pattern(
    r"\A\W*(?:below|above|the following|here|this|these|that|it|what follows)\b[^\n]{0,40}"
    r"\b(?:is|are|was|were|shows?|follows?)\b[^\n]{0,60}"
    r"\b(?:contents?|outputs?|results?|examples?|samples?|excerpts?|logs?|responses?|files?|transcripts?|format|templates?"
    r"|snippets?|documentation|diff|quotes?|text|pages?|emails?)\b",
    r"\bis as follows\b|\blooks? like (?:this|so|that)\W*\Z",
    r"\b(?:read|see|find|found|has|shows?) (?:the following|this)"
    r" (?:text|lines?|message|words?|entry|instructions?)\b",
    r"\A\W*(?:it|the (?:file|page|document)) (?:has|contains|holds|consists of)"
    r" (?:only |just )?(?:one|two|three|\d+|this|these|the following|a single)\b.{0,20}"
    r"\b(?:lines?|words?|entry|entries|records?|calls?)\b",
    r"\A\W*(?:for example|examples?|an example|samples?)\b|\bhere is how\b.{0,80}\blooks\b",
)
FORBIDS = _pattern(
    r"\b(?:do not|don't|never|should not|shouldn't|must not|mustn't|will not|won't|cannot|can't)"
    r" (?:run|call|use|send|write|do|execute) (?:this|that|these|the following|it|such|any)\b"
)
ASKS_LEAVE = _pattern(
    r"\b(?:(?:should|shall|may|can|could|must|do) (?:I|we)\b|(?:would|do|could|will|can|did) you\b"
    r"|are you (?:ok(?:ay)?|sure|fine)|is (?:it|that|this) (?:ok(?:ay)?|fine|all right|alright)"
    r"|(?:ok(?:ay)?|agreed|right|proceed|go ahead|confirm|deal))\b"
    r"(?![^\n?]{0,60}\b(?:anything|something) (?:else|more)\b)[^\n?]*\?",
    r"\A\W*\?",
)
ASKS_ABOUT = _pattern(
    r"\b(?:what|how|why|which|is|does|do|did|are|was|were)\b[^?]{0,200}\b(?:this|that|these|those|the following)\b[^?]{0,200}\?"
)
DISOWNS = _pattern(
    _any(
        """stop here/wait here/until you/not part of your/not from you/tell me which/tell me to/let me know which
        /let me know before
        /just an example
        /only an example/only documentation/just say/inject*/attack*/neither has/neither was/neither is/neither of
        /none of them/none of these/none of this/nothing was run/nothing was sent/for your word/for your permission
        /for your approval/for your confirmation/for your go-ahead/for your answer/for your decision"""
    ),
    r"\bI (?:have not|haven't|did not|didn't|will not|won't|do not|don't|cannot|can't|never|would not|wouldn't|am not"
    r"|refuse to) (?:\w+ )?(?:run|ran|done|do|did|follow\w*|call\w*|execute\w*|made|make|sent|send|allowed|obey)\b",
    r"\bI(?:'ll| will| am|'m)? (?:ignor\w+|leave (?:it|this)|left it|hold)\b",
    r"\b(?:has|have|was|were|is|are) not (?:been )?(?:run|made|executed|sent|allowed)\b",
    r"\b(?:the|this|that) (?:call|command|request) (?:above )?(?:is|was|would)\b",
    r"\b(?:tell me|let me know) (?:if|whether)"
    r" (?:I|this|that|it|you (?:agree|approve|want me|would like me))\b",
    r"\(y/n\)|\[y/n\]|\bis (?:how|what) (?:a|an|the|such|it|this|that|one|calls?)\b|\bthat is all of it\b",
)
_NEW_SENTENCE = _any(
    """i/i'll/then/now/next/let/this/these/ok/okay/done/waiting/reading/running/checking/will/after/json/tool/tool_call
    /assistant/please/sure/note/hope/once/first/it/we/thanks/thank/that"""
)
# What goes on with a sentence: it begins with a small letter, and not with a word that careless writers begin with.
GOES_ON = re.compile(rf"[\"'”’)*_`]*\s*(?:(?i:(?!{_NEW_SENTENCE}))[a-z]+[a-z']*(?:[,;:]? \S|[,;:]\n)|[”»])")
# What lets the reader choose among several calls before it.
CHOOSES = _pattern(
    r"\bwhich (?:one )?(?:do |would |should )?(?:you|I|we)\b", r"\bwhich (?:one|of (?:them|these|the))\b[^\n]{0,80}\?"
)
OR = _pattern(r"\W*(?:or|either|alternatively|otherwise|or else|versus|vs)\b\W*\Z")
JOINS = _pattern(
    r"\W*(?:(?:and|then|also|next|and then|plus|followed by|afterwards?)\W*)?\Z",
    r"\W*?\n[ \t]*(?:\d{1,3}[.)]|[-*+•]|\(?[a-z]\))\s[^\n]{0,80}\Z|\s*(?:\d{1,3}[.)]|[-*+•])\s*\Z",
)
_CLAIMED = _any(
    """contain/contains/is/are/was/were/show/shows/showed/returned/say/says/said/print/prints/printed/has/had/exist/exists
    /succeed/succeeds/succeeded/fail/fails/failed/work/works/worked/pass/passes/passed"""
)
_THINGS = _any(
    """file/files/output/outputs/result/results/command/commands/test/tests/folder/folders/directory/directories/content
    /contents/response/tool/call/listing/search/build/script/time/program/server/package"""
)
# What tells, between two calls, what came of the first: a heading, a sentence about it, or one bare word.
CLAIMS = _pattern(
    r"\A\W*(?:(?:tool |function |call |command |shell )?(?:results?|outputs?|responses?|stdout|answer|returned)\b\W{0,4}:"
    r"|```\w*(?:output|result|response)\w*"
    r"|(?:(?:ok(?:ay)?|great|good|perfect|done|so|now|as expected)\W{1,3}){0,2}"
    rf"(?:(?:the|this|that|all|both) (?:current |new |\w+ed )?{_THINGS}(?![^\n.]{{0,80}}\bwill\b)[^\n.]{{0,80}}{_CLAIMED}"
    r"|(?:it|this|that) (?:contains|shows|showed|returned|says|said|prints|printed|succeeded|failed|worked|passed)\b"
    rf"|there (?:is|are)\b(?!.{{0,80}}\bto {_VERBS})"
    r"|[^\n]{0,200}\b(?:I|we) (?:can |now )?see (?:that|the|it|an?)\b"
    r"|(?:I|we) (?:can see|now see|see that|found|got)\b)|(`{3,})[^`]*\1\s*\Z|\S{0,79}[^\s.,:;!]\s*\Z)"
)


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
    return goes_on(behind) and not (is_own and not UNREAL.search(line) and not TOLD.search(line))


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
    if THINKS.match(lead):
        return False
    bare = lead.rstrip("*_`\"' ")
    tends = TENDS.search(lead) is not None
    if any(each.search(lead) for each in (FORBIDS, FOR_A_FILE)):
        return True
    if not tends and ANNOUNCES.search(lead):
        return True
    if bare.endswith("?"):
        return any(each.search(bare) for each in (ASKS_LEAVE, ASKS_ABOUT))
    if not bare or bare.endswith((".", "!")):
        return False
    if DEPENDS.search(lead) or (not is_marked and INSTRUCTS.search(lead)):
        return True
    if any(_is_act(part) for part in (_CLAUSE.split(lead)[-1], lead)):
        return False
    if UNREAL.search(lead) or TOLD.search(lead) or NAMES_FILE.search(lead):
        return True
    is_long = len(_WORD.findall(lead)) > _FEW_WORDS
    return is_long and IS_ENGLISH.search(lead) is not None and NAMES_CALL.match(lead) is None


def _is_act(part: str) -> bool:
    """Tell whether a sentence, or its last clause, says that the model acts now."""
    if RESOLVES.search(part) and not DENIES.search(part):
        return True
    if UNREAL.search(part):
        return False
    return bool(ACTS.search(part) or (TENDS.search(part) and not TOLD.search(part)))
