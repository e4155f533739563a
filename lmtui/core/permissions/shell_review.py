"""What one simple command may do where files can be changed: wrappers of another one, interpreters, git, other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lmtui.core.permissions.shell_grammar import Risk, SimpleCommand, glob_risks, word_set


class ToolGuard(NamedTuple):
    """What a wildcard does not cover.

    `letters` are one-letter options, `valued` harmless ones with a value (it ends a cluster), `long` beginnings of long ones
    (with `=` whole ones); `known` are the only sub-commands that are covered.  An operand in which `operands` is found is held
    back, and each behind the first `most`.  With `only` the options that are named are the only ones that are covered.
    """

    letters: str = ""
    valued: str = ""
    long: str = ""
    known: str = ""
    operands: str = r"\A@"
    most: int = 1000
    only: bool = False


# Long options by which programs run code, load it, or read and write files of the caller's choice: a part of their name.
_FAMILIES = re.compile(
    r"--?(?:[a-z]+-)*(?:exec\w*|eval|commands?|cmd|script|shell|plugins?|plugindir|config\w*|conf|rc|rcfile|require|import|loader?"
    r"|out|output\w*|out(?:file|dir|Dir|File)|report\w*|trace\w*|dump\w*|save\w*|cache\w*|dirs?|directory|prefix|root\w*|index|editor"
    r"|registry|pager|hooks?|wrapper|runner|env|environment|init|files?|logfile|\w*profile|upload\w*|overlay|\w*flags|transform\w*"
    r"|setup\w*|\w+(?:Setup|Teardown|Runner|Environment|File|Files|Dir|Directory|Config|Results\w*|Serializers)|parser|resolver|preset"
    r"|preload|\w*plugin|format|interpreter|rsh|pre|pdb\w*|override\w*|basetemp|rootdir|confcutdir|\w*xml|html|pastebin|debug|host"
    r"|context|manifest|toolexec|modfile|vettool|compiler|fuzz|stats|emit|ui|call|watchman|override|executable|tar\w*get-dir"
    r"|method|specs|fuse|dumpbase|dumpdir|M[FDM]+|to-command|modcacherw|o)(?:[-=].*|\Z)"
)
_NOT_RISKY = re.compile(
    r"--(?:cov-report=(?:term(?:-missing)?(?::skip-covered)?|xml|html|lcov|json)?\Z|env-file-if-exists|output-on-failure"
    r"|no-[a-z-]+\Z|format=?(?:json|short|text|compact)?\Z|cov-report\Z|dir\Z|report-only-changed|exec-?timeout)"
)
_COMPILER = ToolGuard("B", "IDLlWfOmgxU", "save-temps aux-info plugin load fplugin wrapper specs fuse dump MF MD MMD")
_NODE = ToolGuard("crof", long="rulesdir")
_NPM = ToolGuard("cC", long="userconfig globalconfig node-options git viewer pack-destination cwd modules-folder",
    known="test t run run-script start stop restart install i ci ls list outdated audit ll view info why explain fund prune "
    "dedupe "
    "root bin uninstall update pack version link rebuild build add remove lint dev")  # fmt: skip
_PIP = ToolGuard("it", "rce", "python extra-index-url target log global-option find-links cert client-cert build-option src "
    "proxy",
    "install list show freeze check uninstall download index debug help hash inspect cache")  # fmt: skip
GUARDS: dict[str, ToolGuard] = {
    "pytest": ToolGuard("pcoW", "kmrn", "json alluredir csv benchmark pythonwarnings",
    operands=r"\A(?:html|xml|lcov|json|annotate):"),
    "make": ToolGuard("fEIC", "jlo", "makefile eval", operands=r"=|\A@"), "npm": _NPM, "pnpm": _NPM, "yarn": _NPM, "pip": _PIP,
    "pip3": _PIP,
    "cargo": ToolGuard("ZC", "pjF", "lockfile-path timings git path", "build b check c test t run r bench doc clippy fmt "
    "clean tree metadata "
        "fetch update add remove new init fix vendor search nextest install uninstall generate-lockfile locate-project "
        "pkgid", r"\A[@+]"),
    "go": ToolGuard("wC", "", "exec o=", "build test vet fmt list mod run doc env version get install clean generate work fix",
    r"\A[@+]"),
    "tar": ToolGuard("IFPCTXgV", "fb", "use-compress-program checkpoint-action new-volume-script rmt-command absolute-names "
    "exclude-from "
        "listed-incremental remove-files volno one-top-level xform overwrite-dir unlink-first recursive-unlink info-script",
        operands=r"\A@|\A[^/=]*:|\A[a-zA-Z]*[IFPCTXgV][a-zA-Z]*\Z"),
    "curl": ToolGuard("sSfLIikvgGN#46", "HAXmeur", "silent show-error fail fail-with-body location head include insecure "
    "verbose globoff get "
        "no-buffer progress-bar header user-agent request max-time connect-timeout retry retry-delay retry-all-errors "
        "compressed http1.1 "
        "http2 ipv4 ipv6 referer user range max-redirs url resolve no-progress-meter", operands=r"\A@|\A(?i:file):", only=True),
    "wget": ToolGuard("qcvSN46", "tTwU", "quiet continue no-verbose server-response timestamping tries timeout wait "
    "user-agent spider "
        "show-progress no-check-certificate header inet4-only max-redirect", only=True),
    "rsync": ToolGuard("eT", long="rsync-path delete log-file remove-source only-write read-batch write-batch temp partial "
    "compare copy-dest "
        "link-dest daemon backup"), "zip": ToolGuard("TmbO", long="unzip-command test move temp"), "unzip": ToolGuard("d:"),
    "mypy": ToolGuard("", "pmc", "python-exec install-types shadow-file custom"), "ruff": ToolGuard("o", long="add-noqa"),
    "black": ToolGuard("c", long="code"),
    "tsc": ToolGuard("b", long="generate tsBuildInfo declarationDir build"), "rustc": ToolGuard("CZ",
    long="codegen extern sysroot"),
    "cmake": ToolGuard("ECP", "DSBG", "build install toolchain graphviz"), "docker": ToolGuard("Hc",
    known="ps images logs inspect version info "
        "stats top port diff history"), "deno": ToolGuard(known="test check fmt lint info doc types bench",
        long="lock node-modules"),
    "bun": ToolGuard("rc", known="test install", long="cwd"), "dd": ToolGuard(operands="="), "yq": ToolGuard("is",
    long="inplace split-exp"),
    "date": ToolGuard("s", long="set"), "ctags": ToolGuard("fo", long="options"), "tox": ToolGuard("cx", long="workdir result"),
    "nox": ToolGuard("f", long="noxfile"), "gradle": ToolGuard("IbcDPgp", long="build-file settings include project"),
    "mvn": ToolGuard("fsDlgt", long="settings toolchains global"), "coverage": ToolGuard("od", long="data"),
    "isort": ToolGuard(long="settings"),
    "sqlite3": ToolGuard("A", long="append archive "
    "deserialize", operands=r"(?i)(?:\A|\n)\s*\.(?!(?:tables|schema|ind\w+|databases|headers"
        r"|dump|mode|show|stats)\b)|writefile|load_extension|edit *\(|\battach\b|\bvacuum\b.*\binto\b|fts3_tokenizer|pragma"),
    "sort": ToolGuard("oTS", "kt", "output temporary compress-program files0"), "uniq": ToolGuard("", "fsw", most=1),
    "xxd": ToolGuard("ripb", most=1),
    "hostname": ToolGuard("Fb", most=0), "tree": ToolGuard("oR", "LIP"), "rg": ToolGuard("z", "ABCEefgjmMtTrd",
    "pre hostname-bin search-zip"),
    "fd": ToolGuard("xX", "dteEScj"), "file": ToolGuard("Cm", long="compile magic"), "diff": ToolGuard("l", long="paginate"),
    "test": ToolGuard("v", operands=r"\["), "[": ToolGuard("v", operands=r"\A.*\["), "printf": ToolGuard("v",
    operands="%[^a-zA-Z%]*n"),
    "sed": ToolGuard("fi", "el", "in-place"), "find": ToolGuard(long="exec ok delete fprint fls files0"),
    "split": ToolGuard(long="filter"),
    "csplit": ToolGuard("f"), "cp": ToolGuard("t"), "mv": ToolGuard("t"), "install": ToolGuard("ts", long="strip"),
    "patch": ToolGuard("oderB", long="ed reject"),
    "jq": ToolGuard("L", "f"), "openssl": ToolGuard(long="engine provider keyout writerand"), "sphinx-build": ToolGuard("cDdw"),
    "pre-commit": ToolGuard("c", known="run"), "ansible": ToolGuard("me"), "prettier": ToolGuard(long="find-config"),
} | dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++"), _COMPILER) | dict.fromkeys(
    ("eslint", "jest", "vitest", "mocha", "webpack", "vite", "rollup", "esbuild", "stylelint", "swc", "babel"),
    _NODE)  # fmt: skip
_NEEDS = {"gzip": r"\A-[lt]", "unzip": r"\A-[lvtZ]", "sqlite3": r"(?:\A| )[^- ]\S* +[^- ]"}
_PRODUCT = re.compile(r"(?:\./)?(?:(?:build|dist|out|target|bin|obj)/[\w./+-]*|[\w+-]+\.(?:o|so|a|out|exe|obj|lo|wasm|gch)"
    r"|(?!makefile|gnumakefile|configure|gradlew|mvnw|justfile|manage|run|test)[a-z][a-z0-9_-]*)")  # fmt: skip
_AWK = re.compile(r"system|getline|[@`|]|>(?!=)|\\\n|close|fflush|ARG[VC]|printf? *>")
_SED = re.compile(r"(?:[\d$]+(?:,[\d$]+)?)? "
    r"*(?:[pdq=]|[sy]([/|,#:@!])(?:(?!\1)[^\\\n\[;]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiI0-9]*)"
    r"(?: *; *[pdq])?|")  # fmt: skip
# Whatever their words are, a wildcard never covers these: they run what they are told, or let the user leave to a shell.
NEVER_BROAD = word_set(
    "sudo su doas pkexec runuser eval source . exec builtin trap alias unalias enable hash bind complete compgen mapfile "
    "readarray "
    "declare typeset local export readonly let coproc read unset getopts shopt set parallel watch ssh scp sftp script "
    "busybox toybox "
    "gdb lldb strace ltrace perf valgrind screen tmux expect socat nc ncat netcat telnet at batch crontab setsid chroot "
    "unshare nsenter "
    "bwrap systemd-run flock ionice chrt taskset setarch entr npx uvx pipx bunx less more most man info vi vim nvim view ex "
    "ed nano "
    "emacs pico joe env xargs osascript open xdg-open fish csh tcsh pwsh powershell cmd dbus-send machinectl ld.so rlwrap "
    "git-shell "
    "make-kpkg start-stop-daemon capsh prlimit run-parts mount umount insmod modprobe systemctl service docker-compose "
    "podman logrotate "
    "dpkg apt apt-get yum dnf pacman brew snap gem fc select tig gitk lazygit psql mysql mariadb mongosh duckdb redis-cli "
    "ftp lftp rsh "
    "dc m4 gnuplot octave sage R kdb zmv"
)


def tool_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the words that make a program do more than its plain use."""
    program, words = command.program.rpartition("/")[2], command.words
    if program in NEVER_BROAD or program.startswith("ld-"):
        yield from (Risk(i, f"{program} runs whatever it is told") for i in range(1, len(words) + 1))
        return
    yield from (risk for risk in glob_risks(command) if program != "find" or words[risk.index - 1] not in ("-name", "-path"))
    guard = GUARDS.get(program, ToolGuard())
    yield from (Risk(i, f"{command.program} {words[i]} may run or write something else") for i in _risky(command, guard))
    if program in ("sed", "awk", "gawk", "mawk", "nawk"):
        yield from _script_risks(words, is_sed=program == "sed")
    if program in _NEEDS and not re.search(_NEEDS[program], " ".join(words[1:])):
        yield Risk(len(words), f"{program} changes files or runs code from standard input")


def _risky(command: SimpleCommand, guard: ToolGuard) -> Iterator[int]:
    """Yield the places of the words that a guard, or a family of options, holds back."""
    operands = 0
    for i, word in enumerate(command.words[1:], 1):
        if word.startswith("-") and word != "-":
            is_risk = _is_risky_option(word, guard)
        else:
            operands += 1
            is_risk = operands > guard.most or (guard.most < 1000 and command.globs[i] != "")
            is_risk = is_risk or re.search(guard.operands, word) is not None
        if guard is _COMPILER:
            is_risk = is_risk or _writes_over(command.words, i) or re.match(r"-(?:Wl,.*(?:plugin|-o|,o)|X)", word) is not None
        if is_risk or (guard.known and i == 1 and word not in guard.known.split()):
            yield i


def _writes_over(words: tuple[str, ...], i: int) -> bool:
    """Tell whether a word names what a compiler writes, and that is nothing that one usually writes."""
    target = words[i][2:] or "".join(words[i + 1 : i + 2])
    return words[i].startswith("-o") and not (_PRODUCT.fullmatch(target) and ".." not in target)


def _is_risky_option(word: str, guard: ToolGuard) -> bool:
    name = word.lstrip("-").partition("=")[0]
    if guard.only and word.startswith("--"):
        return name not in guard.long.split()
    if not guard.only:
        if f"{name}=" in guard.long.split():
            return True
        is_long = word.startswith("--") or len(name) > 2 or name in guard.long.split()
        if is_long and any(name.startswith(long) or (len(name) > 1 and long.startswith(name)) for long in guard.long.split()):
            return True
        if is_long and guard is not _COMPILER and _FAMILIES.match(word) and not _NOT_RISKY.match(word):
            return True
    for letter in word[1:] if not word.startswith("--") else "":
        if (letter in guard.letters) != guard.only and not (guard.only and letter in guard.valued):
            return True
        if letter in guard.valued:
            return False
    return False


def _script_risks(words: tuple[str, ...], *, is_sed: bool) -> Iterator[Risk]:
    """Yield the scripts of a sed or awk command that may write or run something."""
    given = [i for i in range(2, len(words)) if re.fullmatch(r"-[nErsuzi]*e|--expression", words[i - 1])]
    places = (
        given or [i for i, word in enumerate(words) if i and not word.startswith("-") and words[i - 1] not in ("-F", "-v")][:1]
    )
    for i in places:
        if not _SED.fullmatch(words[i]) if is_sed else _AWK.search(words[i]):
            yield Risk(i, f"the {words[0]} script may write or run something")
    glued = r"-[nErsuzi]*e.|--expression=|-[fE](?:.|\Z)|--(?:file|exec|include|load|source)" if is_sed else r"-[filEeo].*|--.*"
    hidden = (i for i, word in enumerate(words) if i and re.match(glued, word))
    yield from (Risk(i, f"{words[0]} {words[i]} may run a script that lmtui does not check") for i in hidden)


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
    flags, valued = forms or ("", "")
    place = 1
    while place < len(words) and forms:
        if valued and re.fullmatch(valued, words[place]):
            place += 2
        elif flags and re.fullmatch(flags, words[place]):
            place += 1
        else:
            break
    place = place if forms and place < len(words) and not words[place].startswith("-") else 0
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
    words, place = command.words, inner_place(command.words)
    if place and command.globs[place]:
        place = 0
    # the program of a package, wherever it comes from: only a rule that names it covers it
    runs_package = words[0] in ("npx", "uvx", "bunx") and re.fullmatch(r"[a-z][a-z0-9-]*", "".join(words[1:2]))
    if depth <= _MOST_REVIEWED and place:
        yield Risk(place, f"{command.program} runs another program")
        yield from (Risk(risk.index + place, risk.why) for risk in _risks(command.from_word(place), depth + 1))
    elif depth <= _MOST_REVIEWED and runs_package:
        yield Risk(1, f"{command.program} fetches and runs a package")
        yield from (Risk(risk.index + 1, risk.why) for risk in _risks(command.from_word(1), depth + 1))
    elif depth > _MOST_REVIEWED or words[0] in _FORMS or (words[0] in _RUNNERS and words[1:2] == ("run",)):
        yield from (Risk(i, f"{command.program} runs another program") for i in range(1, len(words) + 1))
    elif command.program.rpartition("/")[2] == "git":
        yield from git_risks(command)
    elif is_interpreter(command.program):
        yield from interpreter_risks(command)
    else:
        yield from tool_risks(command)
