"""What one simple command may do where files can be changed: wrappers of another one, interpreters, git, other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile

from lmtui.core.permissions.shell_grammar import Outline, Risk, SimpleCommand, glob_risks, outline, unquoted, word_set
from lmtui.core.permissions.shell_programs import tool_risks

GIT_GLOBALS = word_set("--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects")
# A name outside this list may be an alias from the repository's own settings, which runs anything.
_KNOWN = word_set(
    "add am apply archive bisect blame branch bundle checkout cherry-pick clean clone commit config describe diff fetch "
    "format-patch gc grep init log ls-remote merge mv notes prune pull push range-diff rebase reflog remote reset restore "
    "revert "
    "rm show sparse-checkout stash status submodule switch tag worktree update-index read-tree write-tree commit-tree "
    "show-branch symbolic-ref var rev-parse ls-files ls-tree rev-list shortlog name-rev merge-base diff-tree diff-index "
    "diff-files whatchanged show-ref cherry for-each-ref check-ignore count-objects cat-file annotate checkout-index"
)
_RISKY_LONG = word_set(
    "output ext-diff textconv open-files-in-pager upload-pack receive-pack exec template config separate-git-dir edit "
    "gpg-sign sign "
    "strategy tool extcmd help interactive remote-submodules show-signature filters local-user edit-todo edit-description"
)
_RISKY_LETTERS = {
    "commit": "eSct", "rebase": "xiSs", "clone": "cu", "pull": "sS", "merge": "eSs", "tag": "su", "am": "iS", "revert": "eSs",
    "cherry-pick": "eSs", "log": "O", "diff": "O", "show": "O", "grep": "O", "add": "ie", "archive": "o", "format-patch": "o",
}  # fmt: skip
_VALUED_LETTERS = {"commit": "mFC", "tag": "mF", "clone": "bo", "log": "nLSG", "merge": "mX"}
_NEVER = re.compile(r"(?:bisect run|submodule (?:foreach|add)|hook run|remote (?:add|set-url)|notes edit|bundle create)\Z")


def git_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the words by which a git command runs other programs, asks for an editor or writes outside its plain use."""
    words = command.words
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-C" and at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
        elif words[at] not in GIT_GLOBALS:
            yield Risk(at, f"git {words[at]} may run other programs or use another repository")
        at += 1
    if at < len(words):
        name = words[at]
        risky, valued = _RISKY_LETTERS.get(name, "S"), _VALUED_LETTERS.get(name, "") + "\0"
        end = words.index("--") if "--" in words else len(words)
        for i in range(at, len(words)):
            is_risk = name not in _KNOWN if i == at else i < end and _is_risky(name, words[i], risky, valued)
            if is_risk or (name == "config" and i > at and (i == at + 1 or not words[i].startswith("-"))):
                yield Risk(i, f"git {name} {words[i]} may run other programs or write elsewhere")
        yield from glob_risks(command)


def _is_risky(name: str, word: str, risky: str, valued: str) -> bool:
    if word.startswith("--"):
        return any(long.startswith(word[2:].partition("=")[0]) for long in _RISKY_LONG)
    if word.startswith("-"):
        return re.match(rf"-[^{risky}{valued}]*[{risky}]", word) is not None
    return "::" in word or _NEVER.match(f"{name} {word}") is not None


# Options without a value, and those with one; anything else makes the form unknown.
_FORMS = {
    "timeout": (r"-v|--foreground|--preserve-status|--(?:kill-after|signal)=\S+", r"-[ks]"), "nice": (r"-\d+|-n-?\d+", "-n"),
    "nohup": ("", ""), "time": ("-p", ""), "command": ("-p", ""), "stdbuf": (r"-[ioe]\w+", "-[ioe]"), "env": ("", ""),
}  # fmt: skip
_XARGS = (r"-[0rt]+|-[nPLI]\S+|--null|--no-run-if-empty|--verbose|-d\S+", "-[nPLdI]")
_RUNNERS = word_set("uv poetry pipenv pdm hatch rye")
_MODULES = word_set("pytest mypy ruff black isort pylint flake8 coverage tox nox pip")
_NAME = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*|\[")


def is_wrapper(words: tuple[str, ...]) -> bool:
    """Tell whether a command is there to run another one, in whatever form."""
    return words[0] in _FORMS or (words[0] in _RUNNERS and words[1:2] == ("run",))


def inner_place(words: tuple[str, ...]) -> int:
    """Return at which word the wrapped command begins, 0 where the command is not a wrapper or not in a known form."""
    if words[0] in _RUNNERS:
        return _named(words, 2 if words[1:2] == ("run",) else 0)
    module = module_place(words)
    return _named(words, module) if module and words[module] in _MODULES else transparent_place(words)


def transparent_place(words: tuple[str, ...], *, with_xargs: bool = False) -> int:
    """Return the same for wrappers that find the program just as the shell would.

    `with_xargs`: it is one too, though the program gets more words than are seen here.
    """
    forms = _XARGS if with_xargs and words[0] == "xargs" else _FORMS.get(words[0])
    place = _behind_options(words, *forms) if forms else 0
    if words[0] == "timeout" and place:
        place = place + 1 if re.fullmatch(r"\d+(?:\.\d+)?[smhd]?", words[place]) else 0
    return _named(words, place)


def _named(words: tuple[str, ...], place: int) -> int:
    return place if 0 < place < len(words) and _NAME.fullmatch(words[place]) else 0


def module_place(words: tuple[str, ...]) -> int:
    """Return where the module of `python -m module` is, 0 where there is none."""
    if re.fullmatch(r"(?:.*/)?(?:python|pypy)[0-9.]*", words[0]):
        for i, word in enumerate(words[1:], 1):
            if word == "-m" and i + 1 < len(words):
                return i + 1
            if not re.fullmatch(r"-[uBOsSEIPqb]+", word):
                break
    return 0


def runs_package(words: tuple[str, ...]) -> bool:
    """Tell whether a command runs the program of a package, wherever it comes from: only a rule that names it covers it."""
    return words[0] in ("npx", "uvx", "bunx") and len(words) > 1 and re.fullmatch(r"[a-z][a-z0-9-]*", words[1]) is not None


def _behind_options(words: tuple[str, ...], flags: str, valued: str) -> int:
    at = 1
    while at < len(words):
        if valued and re.fullmatch(valued, words[at]):
            at += 2
        elif flags and re.fullmatch(flags, words[at]):
            at += 1
        else:
            break
    return at if at < len(words) and not words[at].startswith("-") else 0


# Options allowed before the script; other interpreters allow none.
_OPTIONS = {
    "python": r"-[uBOsSEIPvqbh]+|-[WX].+|--version|--help", "node": r"-[vh]|--(?:version|help|test|watch|check|test-only"
    r"|enable-source-maps|no-warnings|trace-warnings)",
    "sh": r"-[euxvn]+|-e?u?o|pipefail|--(?:norc|noprofile|version|help|posix)", "ruby": r"-[wv]+|--version|--help",
}  # fmt: skip
_LIKE = {"pypy": "python", "nodejs": "node"} | dict.fromkeys(word_set("bash dash zsh ksh ash rbash"), "sh")
_LIKE |= dict.fromkeys(word_set("perl php lua rscript"), "ruby")
_ALL = frozenset({*_OPTIONS, *_LIKE}) | word_set(
    "julia tclsh guile ghci runghc irb java ipython jshell scala groovy elixir erl swift ocaml racket"
)


def is_interpreter(program: str) -> bool:
    """Tell whether a program runs code that it is given."""
    return _family(program) in _ALL


def interpreter_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the words by which an interpreter runs inline code or a module."""
    words = command.words
    if place := module_place(words):
        yield Risk(place, f"{command.program} -m {words[place]} runs a module")
    else:
        family = _family(command.program)
        options = _OPTIONS.get(_LIKE.get(family, family), "(?!)")
        script = next((i for i, word in enumerate(words[1:], 1) if not re.fullmatch(options, word)), len(words))
        if script >= len(words) or words[script][:1] in ("-", "+", ""):
            yield from (Risk(i, f"{command.program} runs code") for i in range(script, max(script, len(words) - 1) + 1))
    yield from glob_risks(command)


def _family(program: str) -> str:
    return re.sub(r"[0-9.]+\Z", "", program.rpartition("/")[2]).lower()


_MOST_REVIEWED = 20
_HARMLESS = word_set("cd echo pwd true false cat head tail wc ls grep sort uniq cut tr")
_SORT = re.compile(
    r"-[bdfgiMhnRrVcCmsuz]+[0-9.,]*|-[kt].*|--(?:numeric-sort|reverse|unique|ignore-case|key=.*)|[^-].*", re.DOTALL
)


@lru_cache(maxsize=256)
def layers(command: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """Return a command and, where it wraps others in a known form, those: the outermost first."""
    found = [command]
    while (place := inner_place(found[-1].words)) and not found[-1].globs[place] and len(found) <= _MOST_REVIEWED:
        found.append(found[-1].from_word(place))
    return tuple(found)


@lru_cache(maxsize=256)
def risks_of(command: SimpleCommand) -> tuple[Risk, ...]:
    """Return the words that make a command do more than its program's plain use, with what it wraps."""
    return tuple(_risks(command, 0))


def is_harmless(command: SimpleCommand) -> bool:
    """Tell whether a command changes nothing whatever its words are, so that it may accompany one that a rule allows."""
    program, words = command.program, command.words[1:]
    if program == "sort":
        return all(map(_SORT.fullmatch, words)) and not any(command.globs)
    if program == "uniq":
        return sum(not word.startswith("-") for word in words) <= 1 and not any(command.globs)
    if program == "set":
        return all(re.fullmatch(r"-[eux]+o?|-o|pipefail", word) for word in words)
    return program in _HARMLESS


def _risks(command: SimpleCommand, depth: int) -> Iterator[Risk]:
    """Yield the risks of a command with this many wrappers; with too many, nothing is known."""
    place = inner_place(command.words)
    if place and command.globs[place]:
        place = 0
    if depth <= _MOST_REVIEWED and place:
        yield Risk(place, f"{command.program} runs another program")
        yield from (Risk(risk.index + place, risk.why) for risk in _risks(command.from_word(place), depth + 1))
    elif depth <= _MOST_REVIEWED and runs_package(command.words):
        yield Risk(1, f"{command.program} fetches and runs a package")
        yield from (Risk(risk.index + 1, risk.why) for risk in _risks(command.from_word(1), depth + 1))
    elif depth > _MOST_REVIEWED or is_wrapper(command.words):
        yield from (Risk(i, f"{command.program} runs another program") for i in range(1, len(command.words) + 1))
    elif command.program.rpartition("/")[2] == "git":
        yield from git_risks(command)
    elif is_interpreter(command.program):
        yield from interpreter_risks(command)
    else:
        yield from tool_risks(command)


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
    """Tell whether a command only reads, whatever its words mean."""
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
