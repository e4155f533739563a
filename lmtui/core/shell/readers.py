"""Command lines that only want to read: they run without a question where nothing can be changed and secrets are hidden.

A convenience, not a guard: a wrong judgement costs a failed command.  So this knows only programs and the few words with which
they usually write, need the network or wait for a terminal.
"""

from __future__ import annotations

import re
from itertools import takewhile

from lmtui.core.shell.command import word_set
from lmtui.core.shell.git import GIT_GLOBALS
from lmtui.core.shell.grammar import Outline, outline, unquoted
from lmtui.core.shell.review import transparent_place

_MOST_WRAPPED = 5
_READERS = word_set(
    "ls dir cat head tail wc grep egrep fgrep zgrep rg ag ack cut tr nl tac rev paste fold expand comm cmp diff diff3 od "
    "hexdump "
    "strings zcat bzcat xzcat fmt join column base64 jq stat du df file tree pwd echo printf basename dirname realpath "
    "readlink "
    "which whereis type seq whoami id groups uname nproc arch tty uptime free ps pgrep pstree md5sum sha1sum sha256sum "
    "sha512sum "
    "b2sum cksum getconf locale printenv lscpu lsblk lsof netstat ss hostname date cal nm objdump readelf size ldd zipinfo "
    "test [ "
    ": true false cd pushd popd dirs exit return break continue shift set shopt wait sleep read mapfile local export declare "
    "typeset readonly unset let less more numfmt shuf expr look iconv pr xxd sort uniq sed awk gawk mawk nawk yq bat fd cloc "
    "tokei "
    "getent jobs times ulimit umask hash history findmnt identify ffprobe exiftool xmllint"
)
# Words that make these do more than read; matched against the arguments, joined by spaces.
_UNLESS = {
    "sort": r"(?:^| )(?:-[A-Za-z]*o|--o)", "sed": r"(?:^| )(?:-[nErsuz]*i|--in)", "yq": r"(?:^| )(?:-[A-Za-z]*i|--inplace|-s)",
    "uniq": r"(?:^| )[^- ]\S* [^- ]", "xxd": r"(?:^| )-[a-z]*r|(?:^| )[^- ]\S* [^- ]", "tree": r"(?:^| )-[a-zA-Z]*o",
    "fd": r"(?:^| )(?:-[xX]|--exec)", "rg": r"(?:^| )--pre[ =]", "date": r"(?:^| )(?:-s|--set)", "hostname": r"(?:^| )[^-]",
    "file": r"(?:^| )-C", "iconv": r"(?:^| )(?:-o|--o)", "shuf": r"(?:^| )(?:-o|--o)", "exiftool": r"(?:^| )-\w+\+?=",
} | dict.fromkeys(("awk", "gawk", "mawk", "nawk"), r"system *\(|> *[\"/(]|\| *\"|(?:^| )-i ?inplace")  # fmt: skip
# Only these calls of these programs read.
_ONLY = {
    "tar": r"(?:--list|-?[vzjJZa]*t[vzjJZaf]*)(?: |$)(?!.*--(?:to-command|use-compress|checkpoint-action))",
    "pip": r"(?:list|show|freeze|check|config (?:list|get)|inspect)(?: (?!.*--outdated)|$)",
    "npm": r"(?:ls|list|ll|explain|why|root|prefix|bin|query|pkg get|config (?:get|list|ls)|run$)(?: |$)",
    "pnpm": r"(?:ls|list|why|root|bin)(?: |$)", "yarn": r"(?:list|why|info)(?: |$)",
    "go": r"(?:version|env(?! -[wu])|list|doc)(?: |$)",
    "cargo": r"(?:tree|metadata|locate-project|pkgid|--list)(?: |$)", "rustup": r"(?:show|which|toolchain list)(?: |$)",
    "uv": r"(?:pip (?:list|show|freeze|tree|check)|tree|python (?:list|dir|find))(?: |$)",
    "poetry": r"(?:show|env (?:info|list)|check)$",
    "docker": r"(?:(?:compose )?(?:ps|images|info|logs|ls|config)|inspect|top|port|diff|history|(?:image|volume|network) "
    r"ls)(?: |$)",
    "kubectl": r"(?:get|describe|explain|config view|api-resources)(?: |$)", "helm": r"(?:list|ls|status|template)(?: |$)",
    "python": r"(?:-V|-m (?:json\.tool|platform|site|sysconfig|tabnanny|tokenize|ast|dis)(?: (?:-\S+ )*\S+)?)$", "node": r"-v$",
    "java": r"-version$", "unzip": r"-(?:l|v|t|p|Z|z)[a-z0-9]*(?: |$)", "gzip": r"-(?:l|t|c|dc|lv)(?: |$)",
    "gunzip": r"-[a-z]*[clt]",
    "zip": r"-sf(?: |$)", "openssl": r"(?:version|dgst|(?:x509|rsa|pkey|req) .*-noout)", "sqlite3": r"-readonly ", "env": r"$",
    "ip": r"(?:-\w+ )*(?:a|addr|link|route|r)(?: show)?$", "command": r"-[vV] ", "mount": r"$", "dpkg": r"-[lLsS](?: |$)",
    "tee": r"(?:-a )?/(?:dev/null|tmp/\S+)$", "ar": r"t\w* ", "terraform": r"(?:show|providers|validate)(?: |$)",
}  # fmt: skip
_SAME = {
    "pip3": "pip",
    "python3": "python",
    "nodejs": "node",
    "bzip2": "gzip",
    "xz": "gzip",
    "podman": "docker",
    "bsdtar": "tar",
}
_GIT_READERS = word_set(
    "status log diff show rev-parse ls-files ls-tree rev-list shortlog describe name-rev merge-base diff-tree diff-index "
    "diff-files "
    "whatchanged show-ref range-diff cherry for-each-ref check-ignore check-attr grep count-objects cat-file blame annotate "
    "var "
    "version help show-branch merge-tree fsck column stripspace verify-commit verify-tag"
)
_GIT_LISTING = re.compile(
    r"(?:branch|tag)(?: (?:-[arvlin]+\d*|--(?:list|all|remotes|verbose|show-current|(?:no-)?contains|(?:no-)?merged|points-at"
    r"|sort|format|column|no-color)(?:[= ]\S+)*|(?<=-l )\S+))*|remote(?: -v| --verbose| get-url \S+)?|stash (?:list|show)(?: "
    r".*)?"
    r"|config (?:--\S+ )*(?:--get\S*|--list|-l|get|list)(?: .*)?|reflog(?: (?!expire|delete|drop|write).*)?|worktree list(?: "
    r".*)?"
    r"|submodule(?: (?:status|summary)(?: .*)?)?|bisect (?:log|view)|notes (?:list|show)(?: .*)?|symbolic-ref \S+"
)
_GIT_CONTENTS = word_set(
    "diff show grep blame annotate cat-file whatchanged diff-tree diff-index diff-files range-diff stash merge-tree archive"
)
_CODE_VARIABLES = re.compile(
    r"ENV|IFS|PS4|PATH|SHELLOPTS|(?:BASH|LD|GIT|PYTHON|NODE|PERL|RUBY|LESS|DYLD|PIP|GREP|TAR|JAVA)_?\w*"
    r"|\w*(?:PAGER|EDITOR|OPTS|OPTIONS|PATH)"
)
_TARGETS = re.compile(r"/dev/(?:null|stdout|stderr)|/tmp/[^$`*?]*|&?\d+-?|-")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.+-]+|\[|:")
_ASKS_VERSION = word_set("--version --help -V version")


def not_reading(text: str) -> str:
    """Return why a command line does more than read, or an empty string."""
    seen = outline(text)
    if seen.problem:
        return seen.problem
    for target in seen.targets:
        if not _TARGETS.fullmatch(target):
            return f"it writes to {target}"
    for variable in seen.variables:
        if _CODE_VARIABLES.fullmatch(variable):
            return f"it sets {variable}"
    return next((f"{words[0]} does more than read" for words in map(_plain, seen.commands) if not _reads(words)), "")


def shows_history(seen: Outline) -> bool:
    """Tell whether a command line shows file contents from git's objects, judged by its words."""
    for words in map(_plain, seen.commands):
        for at, word in enumerate(words):
            if word.rpartition("/")[2] == "git" and (rest := _git_words(words[at:])):
                is_patch = rest[0] in ("log", "reflog") and re.search(
                    r" (?:-[a-z]*[puLSG]|--patch|-\S*c\b|--cc)", " ".join(rest)
                )
                if rest[0] in _GIT_CONTENTS or is_patch:
                    return True
    return False


def _plain(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(unquoted, words))


def _reads(words: tuple[str, ...]) -> bool:
    """Tell whether a command only reads, whatever its words stand for."""
    wrapped = 0
    while (place := transparent_place(words, with_xargs=True)) and wrapped < _MOST_WRAPPED:
        words, wrapped = words[place:], wrapped + 1
    program, rest = words[0].rpartition("/")[2], words[1:]
    if not _PLAIN_NAME.fullmatch(words[0]):
        return False
    if len(rest) == 1 and rest[0] in _ASKS_VERSION:
        return True
    if program == "find":
        return _finds(rest)
    if program == "git":
        return _git_reads(_git_words(words))
    joined = " ".join(rest)
    if program in _READERS:
        return program not in _UNLESS or re.search(_UNLESS[program], joined) is None
    only = _ONLY.get(_SAME.get(re.sub(r"(?<=\d)\.\d+$", "", program), program))
    return only is not None and re.match(only, joined) is not None


def _finds(rest: tuple[str, ...]) -> bool:
    """Tell whether a find command writes nothing, and runs only what reads."""
    for at, word in enumerate(rest):
        if word in ("-exec", "-execdir"):
            inner = tuple(takewhile(lambda each: each not in (";", "+"), rest[at + 1 :]))
            if not inner or not _reads(inner):
                return False
        elif re.match(r"-(?:delete|fprint|fls|ok)", word):
            return False
    return True


def _git_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a git command from its subcommand on; empty if an option before it may change what runs."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] not in GIT_GLOBALS and words[at] != "-C":
            return ()
        at += 2 if words[at] == "-C" else 1
    return words[at:]


def _git_reads(rest: tuple[str, ...]) -> bool:
    if not rest:
        return False
    has_output = any(re.match(r"--(?:outp|ext-d|open-f)|-O", word) for word in rest[1:])
    return not has_output and (rest[0] in _GIT_READERS or _GIT_LISTING.fullmatch(" ".join(rest)) is not None)
