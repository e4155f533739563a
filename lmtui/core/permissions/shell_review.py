"""What one simple command may do where files can be changed: wrappers of another one, interpreters, git, other programs.

A risk is the place of a word that makes a command do more than its program's plain use.  A place behind the last word means
what is missing (a script that would come from standard input): only a rule without wildcards covers that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from lmtui.core.permissions.shell_grammar import SimpleCommand, word_set


class _Guard(NamedTuple):
    """What a wildcard does not cover.

    `letters` are one-letter options, `valued` harmless ones with a value (it ends a cluster), `long` beginnings of long ones;
    `words` is an expression for the beginning of any other word, which it may take with a NUL and the next one.  Where not
    `has_families`, only the long options that are named are held back.
    """

    letters: str = ""
    valued: str = ""
    long: str = ""
    words: str = "@"
    has_families: bool = True


# Long options by which programs run code, load it, or read and write files of the caller's choice: a part of their name.
_FAMILIES = re.compile(
    r"(?=--|-[^=\0]{3})--?(?:[a-z]+-)*(?:exec\w*|eval|commands?|cmd|script|shell|plugins?|plugindir|config\w*|conf|rc|rcfile"
    r"|require|import|loader?|out|output\w*|out(?:file|dir|Dir|File)|report\w*|trace\w*|dump\w*|save\w*|cache\w*|dirs?"
    r"|directory|prefix|root\w*|index|editor|registry|pager|hooks?|wrapper|runner|env|environment|init|files?|logfile"
    r"|\w*profile|upload\w*|overlay|\w*flags|transform\w*|setup\w*|parser|resolver|preset|preload|\w*plugin|format"
    r"|\w+(?:Setup|Teardown|Runner|Environment|File|Files|Dir|Directory|Config|Results\w*|Serializers)|interpreter|rsh|pre"
    r"|pdb\w*|override\w*|basetemp|rootdir|confcutdir|\w*xml|html|pastebin|debug|host|context|manifest|toolexec|modfile"
    r"|vettool|compiler|fuzz|stats|emit|ui|call|watchman|override|executable|tar\w*get-dir|method|specs|fuse|dumpbase"
    r"|dumpdir|M[FDM]+|to-command|modcacherw|o)(?:[-=\0]|\Z)"
)
_NOT_RISKY = re.compile(
    r"--(?:cov-report=(?:term(?:-missing)?(?::skip-covered)?|xml|html|lcov|json)?(?:\0|\Z)|env-file-if-exists"
    r"|output-on-failure|no-[a-z-]+(?:\0|\Z)|format=?(?:json|short|text|compact)?(?:\0|\Z)|cov-report(?:\0|\Z)"
    r"|dir(?:\0|\Z)|report-only-changed|exec-?timeout)"
)
_PRODUCT = (
    r"(?![^\0]*\.\.)(?:\./)?(?:(?:build|dist|out|target|bin|obj)/[\w./+-]*|[\w+-]+\.(?:o|so|a|out|exe|obj|lo|wasm|gch)"
    r"|(?!makefile|gnumakefile|configure|gradlew|mvnw|justfile|manage|run|test)[a-z][a-z0-9_-]*)(?:\0|\Z)"
)
_GUARDS = {
    name: _Guard(*guard)
    for names, *guard in (
        ("pytest", "pcoW", "kmrn", "json alluredir csv benchmark pythonwarnings", r"@|(?:html|xml|lcov|json|annotate):"),
        ("make", "fEIC", "jlo", "makefile eval", r"@|(?!-)[^\0]*="),
        ("npm pnpm yarn", "cC", "", "userconfig globalconfig node-options git viewer pack-destination cwd modules-folder"),
        ("pip pip3", "it", "rce", "python extra-index-url target log global-option find-links cert client-cert build-option "
            "src proxy"),
        ("cargo", "ZC", "pjF", "lockfile-path timings git path", "[@+]"), ("go", "wC", "", "exec", r"[@+]|-o(?:[=\0]|\Z)"),
        ("tar", "IFPCTXgV", "fb", "use-compress-program checkpoint-action new-volume-script rmt-command absolute-names "
            "exclude-from listed-incremental remove-files volno one-top-level xform overwrite-dir unlink-first "
            "recursive-unlink info-script", r"@|(?!-)[^/=\0]*:|[a-zA-Z]*[IFPCTXgV][a-zA-Z]*(?:\0|\Z)"),
        ("curl", "", "", "", r"(?!(?:-[sSfLIikvgGN#46]*(?:[HAXmeur][^\0]*)?|--(?:silent|show-error|fail|fail-with-body"
            r"|location|head|include|insecure|verbose|globoff|get|no-buffer|progress-bar|header|user-agent|request|max-time"
            r"|connect-timeout|retry|retry-delay|retry-all-errors|compressed|http1.1|http2|ipv4|ipv6|referer|user|range"
            r"|max-redirs|url|resolve|no-progress-meter)(?:=[^\0]*)?|(?!(?i:file):)[^@\0-][^\0]*)(?:\0|\Z))"),
        ("wget", "", "", "", r"(?!(?:-[qcvSN46]*(?:[tTwU][^\0]*)?|--(?:quiet|continue|no-verbose|server-response|timestamping"
            r"|tries|timeout|wait|user-agent|spider|show-progress|no-check-certificate|header|inet4-only|max-redirect)"
            r"(?:=[^\0]*)?|[^@\0-][^\0]*)(?:\0|\Z))"),
        ("rsync", "eT", "", "rsync-path delete log-file remove-source only-write read-batch write-batch temp partial compare "
            "copy-dest link-dest daemon backup"),
        ("zip", "TmbO", "", "unzip-command test move temp"), ("ruff", "o", "", "add-noqa"),
        ("mypy", "", "pmc", "python-exec install-types shadow-file custom"), ("black", "c", "", "code"),
        ("rustc", "CZ", "", "codegen extern sysroot"), ("unzip", "d:"), ("xxd", "ripb"),
        ("tsc", "b", "", "generate tsBuildInfo declarationDir build"), ("yq", "is", "", "inplace split-exp"),
        ("cmake", "ECP", "DSBG", "build install toolchain graphviz"), ("docker", "Hc"), ("deno", "", "", "lock node-modules"),
        ("bun", "rc", "", "cwd"), ("date", "s", "", "set"), ("hostname", "Fb", "", "", r"(?!-[^\0])"), ("csplit", "f"),
        ("isort", "", "", "settings"), ("prettier", "", "", "find-config"), ("coverage", "od", "", "data"),
        ("tox", "cx", "", "workdir result"), ("pre-commit", "c"), ("nox", "f", "", "noxfile"), ("sphinx-build", "cDdw"),
        ("gradle", "IbcDPgp", "", "build-file settings include project"), ("mvn", "fsDlgt", "", "settings toolchains global"),
        ("ctags", "fo", "", "options"), ("openssl", "", "", "engine provider keyout writerand"),
        ("sqlite3", "A", "", "append archive deserialize", r"(?i:(?:[^\0]*\n)?\s*\.(?!(?:tables|schema|ind\w+|databases"
            r"|headers|dump|mode|show|stats)\b)|[^\0]*(?:writefile|load_extension|edit *\(|\battach\b"
            r"|\bvacuum\b[^\0]*\binto\b|fts3_tokenizer|pragma))"),
        ("sort", "oTS", "kt", "output temporary compress-program files0"), ("tree", "oR", "LIP"),
        ("printf", "v", "", "", r"[^\0]*%[^a-zA-Z%]*[hjlLtz]*n"),
        ("rg", "z", "ABCEefgjmMtTrd", "pre hostname-bin search-zip"), ("fd", "xX", "dteEScj"), ("test [", "v", "", "",
            r"(?!-)[^\0]*\["), ("file", "Cm", "", "compile magic"), ("diff", "l", "", "paginate"),
        ("sed", "fi", "el", "in-place"), ("find", "", "", "exec ok delete fprint fls files0"), ("split", "", "", "filter"),
        ("cp mv", "t"), ("install", "ts", "", "strip"), ("patch", "oderB", "", "ed reject"), ("jq", "L", "f"),
        ("gcc g++ cc c++ clang clang++", "B", "IDlLWfOmgxU", "save-temps aux-info plugin load fplugin wrapper specs fuse "
            r"dump MF MD MMD", rf"@|-Wl,[^\0]*(?:plugin|-o|,o)|-X|-o\0?+(?!{_PRODUCT})", False),
        ("eslint jest vitest mocha webpack vite rollup esbuild stylelint swc babel", "crof", "", "rulesdir"),
    )
    for name in names.split()
}  # fmt: skip
# The only sub-commands of these that a wildcard covers.
_NPM = (
    "test t run run-script start stop restart install i ci ls list outdated audit ll view info why explain fund prune dedupe "
    "root bin uninstall update pack version link rebuild build add remove lint dev"
)
_SUBCOMMANDS = {
    "npm": _NPM, "pnpm": _NPM, "yarn": _NPM, "deno": "test check fmt lint info doc types bench", "bun": "test install",
    "cargo": "build b check c test t run r bench doc clippy fmt clean tree metadata fetch update add remove new init fix "
    "vendor search nextest install uninstall generate-lockfile locate-project pkgid",
    "go": "build test vet fmt list mod run doc env version get install clean generate work fix",
    "docker": "ps images logs inspect version info stats top port diff history", "pre-commit": "run",
    **dict.fromkeys(("pip", "pip3"), "install list show freeze check uninstall download index debug help hash inspect cache"),
}  # fmt: skip
_NEEDS = {"gzip": r"\A-[lt]", "unzip": r"\A-[lvtZ]", "sqlite3": r"(?:\A| )[^- ]\S* +[^- ]"}
_AWK = re.compile(r"system|getline|[@`|]|>(?!=)|\\\n|close|fflush|ARG[VC]|printf? *>")
_SED = re.compile(r"(?:[\d$]+(?:,[\d$]+)?)? "
    r"*(?:[pdq=]|[sy]([/|,#:@!])(?:(?!\1)[^\\\n\[;]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiI0-9]*)"
    r"(?: *; *[pdq])?|")  # fmt: skip
# Whatever their words are, a wildcard never covers these: they run what they are told, or let the user leave to a shell.
NEVER_BROAD = word_set(
    "sudo su doas pkexec runuser eval source . exec builtin trap alias unalias enable hash bind complete compgen mapfile "
    "readarray declare typeset local export readonly let coproc read unset getopts shopt set parallel watch ssh scp sftp "
    "script busybox toybox gdb lldb strace ltrace perf valgrind screen tmux expect socat nc ncat netcat telnet at batch "
    "crontab setsid chroot unshare nsenter bwrap systemd-run flock ionice chrt taskset setarch entr npx uvx pipx bunx less "
    "more most man info vi vim nvim view ex ed nano emacs pico joe env xargs osascript open xdg-open fish csh tcsh pwsh "
    "powershell cmd dbus-send machinectl ld.so rlwrap git-shell make-kpkg start-stop-daemon capsh prlimit run-parts mount "
    "umount insmod modprobe systemctl service docker-compose podman logrotate dpkg apt apt-get yum dnf pacman brew snap gem "
    "fc select tig gitk lazygit psql mysql mariadb mongosh duckdb redis-cli ftp lftp rsh dc m4 gnuplot octave sage R kdb "
    "zmv ansible"
)


def _held_back(words: tuple[str, ...], guard: _Guard, *, is_git: bool = False) -> Iterator[int]:
    """Yield the places of the words that a guard, or a family of options, holds back."""
    cluster = rf"-(?!-)[^\0{guard.valued}]*[{guard.letters}]" if guard.letters else "(?!)"
    expression, longs = re.compile(rf"{guard.words}|{cluster}", re.DOTALL), guard.long.split()
    for i, word in enumerate(words):
        text, name = "\0".join(words[i : i + 2]), word.lstrip("-").partition("=")[0]
        is_single = word[:1] == "-" and not is_git and (len(name) > 2 or name in longs)  # `-plugin`, as compilers write it
        is_long = name != "" and (word.startswith("--") or is_single)
        is_named = any(long.startswith(name) or (name.startswith(long) and not is_git) for long in longs)
        in_family = guard.has_families and _FAMILIES.match(text) and not _NOT_RISKY.match(text)
        if i and (expression.match(text) or (is_long and is_named) or in_family):
            yield i


def _tool_risks(command: SimpleCommand) -> Iterator[int]:
    program, words = command.program.rpartition("/")[2], command.words
    yield from _held_back(words, _GUARDS.get(program, _Guard()))
    operands = [i for i, word in enumerate(words) if i and not re.match("-.", word)]
    if program in _SUBCOMMANDS and words[1:2] and words[1] not in _SUBCOMMANDS[program].split():
        yield 1
    if program in ("sed", "awk", "gawk", "mawk", "nawk"):
        yield from _script_risks(words, operands, is_sed=program == "sed")
    if program in ("uniq", "xxd"):
        yield from (i for i in operands if i != operands[0] or command.globs[i])
    if program in _NEEDS and not re.search(_NEEDS[program], " ".join(words[1:])):
        yield len(words)


def _script_risks(words: tuple[str, ...], operands: list[int], *, is_sed: bool) -> Iterator[int]:
    """Yield the scripts of a sed or awk command that may write or run something, and the options that hide one."""
    given = [i for i in range(2, len(words)) if re.fullmatch(r"-[nErsuzi]*e|--expression", words[i - 1])]
    first = [i for i in operands if words[i - 1] not in ("-F", "-v")][:1]
    yield from (i for i in given or first if (not _SED.fullmatch(words[i]) if is_sed else _AWK.search(words[i])))
    glued = r"-[nErsuzi]*e.|--expression=|-[fE](?:.|\Z)|--(?:file|exec|include|load|source)" if is_sed else r"-[filEeo].*|--.*"
    yield from (i for i, word in enumerate(words) if i and re.match(glued, word))


# Of a name outside this list nothing is known: it may be an alias from the repository's own settings, which runs anything.
_GIT_KNOWN = word_set(
    "add am apply archive bisect blame branch bundle checkout cherry-pick clean clone commit config describe diff fetch "
    "format-patch gc grep init log ls-remote merge mv notes prune pull push range-diff rebase reflog remote reset restore "
    "revert rm show sparse-checkout stash status submodule switch tag worktree update-index read-tree write-tree "
    "commit-tree show-branch symbolic-ref var rev-parse ls-files ls-tree rev-list shortlog name-rev merge-base diff-tree "
    "diff-index diff-files whatchanged show-ref cherry for-each-ref check-ignore count-objects cat-file annotate "
    "checkout-index"
)
_GIT_GLOBALS = r"-C\0(?!-)|(?:--no-pager|-P|--no-optional-locks|--literal-pathspecs|--no-replace-objects)\Z"
_GIT_LONG = (
    "output ext-diff textconv open-files-in-pager upload-pack receive-pack exec template config separate-git-dir edit "
    "gpg-sign sign strategy tool extcmd help interactive remote-submodules show-signature filters local-user edit-todo "
    "edit-description"
)
_GIT = {
    "commit": _Guard("eSct", "mFC"), "rebase": _Guard("xiSs"), "clone": _Guard("cu", "bo"), "pull": _Guard("sS"),
    "merge": _Guard("eSs", "mX"), "tag": _Guard("su", "mF"), "am": _Guard("iS"), "revert": _Guard("eSs"),
    "cherry-pick": _Guard("eSs"), "log": _Guard("O", "nLSG"), "diff": _Guard("O"), "show": _Guard("O"), "grep": _Guard("O"),
    "add": _Guard("ie"), "archive": _Guard("o"), "format-patch": _Guard("o"), "bisect": _Guard(words="run"),
    "submodule": _Guard(words="foreach|add"), "remote": _Guard(words="add|set-url"), "notes": _Guard(words="edit"),
    "bundle": _Guard(words="create"), "hook": _Guard(words="run"),
}  # fmt: skip


def _git_risks(words: tuple[str, ...]) -> Iterable[int]:
    """Return the words by which a git command runs other programs, asks for an editor or writes outside its plain use."""
    at, found = 1, list[int]()
    while words[at : at + 1] and words[at].startswith("-"):
        end = at + 1 + (words[at] in ("-C", "-c"))
        found += () if re.match(_GIT_GLOBALS, "\0".join(words[at:end])) else range(at, end)
        at = end
    rest = words[at:]
    if not rest or rest[0] == "config":
        return (*found, *range(at, len(words)))
    guard = _GIT.get(rest[0], _Guard("S"))
    options = rest[: rest.index("--")] if "--" in rest else rest
    guard = guard._replace(long=_GIT_LONG, words=rf"(?!-)[^\0]*::|(?!@)(?:{guard.words})(?:\0|\Z)", has_families=False)
    held_back = _held_back(options, guard, is_git=True)
    return (*found, *(at + i for i in (0, *held_back) if i or rest[0] not in _GIT_KNOWN))


_RUNNERS = r"(?:uv|poetry|pipenv|pdm|hatch|rye)\0run"
_PYTHON_M = r"(?:[^\0]*/)?(?:python|pypy)[0-9.]*(?:\0-[uBOsSEIPqb]+)*\0-m"
# A program in a known form, behind which the words of another one begin.
_WRAPPER = (
    r"(?:timeout(?:\0(?:-v|--foreground|--preserve-status|--(?:kill-after|signal)=[^\0\s]+|-[ks]\0[^\0]+))*"
    r"\0\d+(?:\.\d+)?[smhd]?|nice(?:\0(?:-\d+|-n-?\d+|-n\0[^\0]+))*|nohup|(?:time|command)(?:\0-p)*"
    rf"|stdbuf(?:\0(?:-[ioe]\w+|-[ioe]\0[^\0]+))*|env|{_RUNNERS})\0(?=(?:[A-Za-z0-9_./][A-Za-z0-9_./+-]*|\[)(?:\0|\Z))"
    rf"|{_PYTHON_M}\0(?=(?:pytest|mypy|ruff|black|isort|pylint|flake8|coverage|tox|nox|pip)(?:\0|\Z))"
)
WRAPPER_OR_XARGS = (
    rf"{_WRAPPER}|xargs(?:\0(?:-[0rt]+|-[nPLId][^\0\s]+|--null|--no-run-if-empty|--verbose|-[nPLdI]\0[^\0]*))*"
    r"\0(?=[A-Za-z0-9_./])"
)
# The program of a package, wherever it comes from: only a rule that names it covers it.
_PACKAGE = r"(?:npx|uvx|bunx)\0(?=[a-z][a-z0-9-]*(?:\0|\Z))"
_RUNS_OTHERS = re.compile(rf"(?:timeout|nice|nohup|time|command|stdbuf|{_RUNNERS})(?:\0|\Z)")
_INTERPRETERS = {
    name: options
    for names, options in (
        ("python pypy", r"-[uBOsSEIPqvbh]+|-[WX].+|--version|--help"),
        ("node nodejs", r"-[vh]|--(?:version|help|test|watch|check|test-only|enable-source-maps|no-warnings|trace-warnings)"),
        ("sh bash dash zsh ksh ash rbash", r"-[euxvn]+|-e?u?o|pipefail|--(?:norc|noprofile|version|help|posix)"),
        ("ruby perl php lua rscript", r"-[wv]+|--version|--help"),
        ("julia tclsh guile ghci runghc irb java ipython jshell scala groovy elixir erl swift ocaml racket", r"(?!)"),
    )
    for name in names.split()
}  # with the options allowed before the script


def _program_name(program: str) -> str:
    return re.sub(r"[0-9.]+\Z", "", program.rpartition("/")[2]).lower()


def is_interpreter(program: str) -> bool:
    """Tell whether a program runs code that it is given."""
    return _program_name(program) in _INTERPRETERS


def _code_risks(words: tuple[str, ...]) -> Iterable[int]:
    """Return the words by which an interpreter runs inline code or a module."""
    if module := re.match(rf"{_PYTHON_M}\0", "\0".join(words)):
        return (module[0].count("\0"),)
    options = _INTERPRETERS[_program_name(words[0])]
    script = next((i for i, word in enumerate(words) if i and not re.fullmatch(options, word)), len(words))
    is_file = script < len(words) and words[script][:1] not in ("-", "+", "")
    return () if is_file else range(script, max(script, len(words) - 1) + 1)


_MOST_WRAPPERS = 20
_HARMLESS = word_set("cd echo pwd true false cat head tail wc ls grep sort uniq cut tr")
_SORT = re.compile(
    r"-[bdfgiMhnRrVcCmsuz]+[0-9.,]*|-[kt].*|--(?:numeric-sort|reverse|unique|ignore-case|key=.*)|[^-].*", re.DOTALL
)


def inner_place(words: tuple[str, ...], wrappers: str = _WRAPPER) -> int:
    """Return at which word the wrapped command begins, 0 where the command is not a wrapper or not in a known form."""
    match = re.match(wrappers, "\0".join(words))
    return match[0].count("\0") if match else 0


@lru_cache(maxsize=256)
def layers(command: SimpleCommand, wrappers: str = _WRAPPER) -> tuple[SimpleCommand, ...]:
    """Return a command and, where it wraps others in a known form, those: the outermost first."""
    found = [command]
    while (place := inner_place(found[-1].words, wrappers)) and not found[-1].globs[place] and len(found) <= _MOST_WRAPPERS:
        found.append(found[-1].from_word(place))
    return tuple(found)


@lru_cache(maxsize=256)
def risks_of(command: SimpleCommand) -> tuple[int, ...]:
    """Return the risks of a command, with those of what it wraps; of too many wrappers, nothing is known."""
    found = layers(command, rf"{_WRAPPER}|{_PACKAGE}")
    starts = [len(command.words) - len(each.words) for each in found]
    own = range(1, len(found[-1].words) + 1) if len(found) > _MOST_WRAPPERS else _own_risks(found[-1])
    return (*starts[1:], *(starts[-1] + i for i in own))


def _own_risks(command: SimpleCommand) -> Iterable[int]:
    words, program = command.words, command.program.rpartition("/")[2]
    if program in NEVER_BROAD or program.startswith("ld-") or _RUNS_OTHERS.match("\0".join(words)):
        return range(1, len(words) + 1)
    patterns = [i for i, pattern in enumerate(command.globs) if i and pattern[:1] in ("*", "?")]  # a file named like an option
    if program == "git":
        return (*patterns, *_git_risks(words))
    if is_interpreter(program):
        return (*patterns, *_code_risks(words))
    is_find = program == "find"
    return (*(i for i in patterns if not (is_find and words[i - 1] in ("-name", "-path"))), *_tool_risks(command))


def reason_of(command: SimpleCommand, risk: int) -> str:
    """Return in words why no wildcard covers a word of a command."""
    if command.program.rpartition("/")[2] in NEVER_BROAD or risk == inner_place(command.words):
        return f"{command.program} runs whatever it is told"
    if risk == len(command.words):
        return f"{command.program} changes files or runs code from standard input"
    word, pattern = command.words[risk], command.globs[risk]
    does = "may match a file named like an option" if pattern[:1] in ("*", "?") else "may run or write something else"
    return f"{word if pattern else f'{command.program} {word}'} {does}"


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
