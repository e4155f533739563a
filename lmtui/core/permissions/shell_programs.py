"""Programs that a rule may allow, and their uses that a wildcard does not cover: running programs and writing elsewhere.

Whole families of options are held back for every program; the table adds one-letter options and other words of each program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
