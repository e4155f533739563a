"""Programs whose arguments are small programs: sed, awk and find.  Only forms that can neither run nor write pass."""

from __future__ import annotations

import re

from lmtui.core.shell.command import SimpleCommand
from lmtui.core.shell.options import OptionGrammar, Review, Risk, glob_risks, read_options, word_set

_SED = OptionGrammar(flags="nErsuz", valued="e", long="quiet silent regexp-extended separate null-data posix unbuffered",
                     long_valued="expression")  # fmt: skip
_ADDRESS = r"(?:\d++(?:~\d++)?|\$|/(?:[^/\\\n]|\\.)*+/I?|[+~]\d++)"


def _substitution(mark: str) -> str:
    """Return the pattern of `s` and `y` with a delimiter; the flags e and w, which run and write, are not in it."""
    mark = re.escape(mark)
    part = rf"(?:[^{mark}\\\n]|\\.)*+{mark}"
    return rf"[sy]{mark}{part}{part}[gpiI0-9]*+"


_SED_COMMAND = (
    rf"[ \t]*+(?:{_ADDRESS}(?:,{_ADDRESS})?)?[ \t]*+!?[ \t]*+"
    rf"(?:[pdDPgGhHxnN=l]|[qQ]\d*+|{'|'.join(map(_substitution, '/|,#:@!'))})?[ \t]*+"
)
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:[;\n]{_SED_COMMAND})*+\Z")

_AWK = OptionGrammar(valued="Fv", long_valued="field-separator assign")
_AWK_DANGER = re.compile(r"system|getline|[@`|]|>(?!=)|\\\n|close|fflush|ARG[VC]")

_FIND_FLAGS = word_set(
    "-print -print0 -ls -prune -depth -empty -not -a -and -o -or -xdev -mount -true -false -nouser -nogroup -readable "
    "-writable "
    "-executable -daystart -quit -follow -d -L -H -P ! ( ) ,"
)
_FIND_VALUED = word_set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -mmin -atime -amin -ctime "
    "-cmin "
    "-newer -anewer -cnewer -newermt -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -samefile -fstype "
    "-regextype "
    "-printf -lname -ilname"
)


def review_sed(command: SimpleCommand) -> Review:
    """Return what a sed command does; it reads only if its script is of prints, deletions, jumps to the end, substitutions."""
    reading = read_options(command.words, _SED)
    has_expression = bool(reading.names & {"e", "expression"})
    scripts = list(reading.values) if has_expression else list(reading.operands[:1])
    glued = [(i, w) for i, w in enumerate(command.words) if re.match(r"-[nErsuz]*e.|--expression=", w)]
    texts = [(i, command.words[i]) for i in scripts]
    texts += [(i, re.sub(r"\A(?:-[nErsuz]*e|--expression=)", "", w)) for i, w in glued]
    risks = [
        Risk(i, f"sed {command.words[i] if i < len(command.words) else ''} may write or run something") for i in reading.unknown
    ]
    risks += [Risk(i, "the sed script may write or run something") for i, text in texts if _SED_SCRIPT.match(text) is None]
    risks += glob_risks(command)
    files = reading.operands if has_expression else reading.operands[1:]
    return Review(is_reader=bool(texts) and not risks, shows=files, risks=tuple(risks))


def review_awk(command: SimpleCommand) -> Review:
    """Return what an awk command does; it reads only if its program has no pipe, no output to files, no calls outside."""
    reading = read_options(command.words, _AWK)
    risks = [Risk(i, "an option of awk may write or run something") for i in reading.unknown]
    programs = [i for i in reading.operands[:1] if _is_awk_dangerous(command.words[i])]
    risks += [Risk(i, "the awk program may write or run something") for i in programs]
    risks += glob_risks(command)
    return Review(is_reader=bool(reading.operands) and not risks, shows=reading.operands[1:], risks=tuple(risks))


def _is_awk_dangerous(program: str) -> bool:
    """Tell whether an awk program may do more than print.  Before the first brace `>` compares: nothing is printed there."""
    head, brace, body = program.replace("||", " ").partition("{")
    if "print" not in head:
        head = head.replace(">", " ")
    return _AWK_DANGER.search(head + brace + body) is not None


def review_find(command: SimpleCommand) -> Review:
    """Return what a find command does; it reads only if every test and action is on the list."""
    risks: list[Risk] = []
    words = command.words
    i = 1
    while i < len(words):
        word = words[i]
        if word in _FIND_VALUED:
            i += 1
            if i >= len(words) or re.match(r"-(?:exec|ok|delete|fprint|fls)", words[i]):
                risks.append(Risk(min(i, len(words)), f"find {word} lacks its value"))
        elif word.startswith("-") and word not in _FIND_FLAGS and not re.fullmatch(r"-O\d|-newer[aBcm][aBcmt]", word):
            risks.append(Risk(i, f"find {word} may write or run something"))
        i += 1
    risks += [Risk(r.index, r.why) for r in glob_risks(command) if words[r.index - 1] not in _FIND_VALUED]
    return Review(is_reader=not risks, risks=tuple(risks))
