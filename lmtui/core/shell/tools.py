"""Programs that a rule may allow, with what of them a wildcard in the rule does not cover: running and writing elsewhere.

An entry lists options by which the program runs something else, loads code, or reads or writes a file of the caller's choice
that is no part of its plain use.  Of programs without an entry every word is covered that belongs to no such family of options:
the user named them, and nothing else is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lmtui.core.shell.command import Risk, SimpleCommand, glob_risks, word_set


@dataclass(frozen=True, slots=True)
class ToolGuard:
    """What a wildcard does not cover.

    Args:
        letters: one-letter options that are risks; `valued` are harmless ones with a value (it ends a cluster).
        long: long options that are risks, also abbreviated, with one dash or two.
        known: the only subcommands that a wildcard covers, where the program can be taught others.
        operands: an expression; an operand in which it is found is a risk; an option that `options` matches is one too.
        most: so many operands are covered; a further one would be written to.
        is_abbreviated: the program takes the beginning of a long option for the option.
        only: `letters`, `valued` and `long` are the only options that are covered.
    """

    letters: str = ""
    valued: str = ""
    long: str = ""
    known: str = ""
    operands: str = r"\A@"
    options: str = "(?!)"
    most: int = 1000
    is_abbreviated: bool = True
    only: bool = False


_NODE_CODE = ToolGuard(letters="crof", long="config plugin rulesdir resolve-plugins-relative-to require import loader "
    "globalSetup "
    "globalTeardown setupFiles transform runner testRunner testEnvironment env environment output outputFile output-file "
    "output-path outDir format parser reporter reporters resolver preset preprocessor coverageDirectory "
    "coverage.reportsDirectory "
    "cacheDirectory cache-location cache-file rootDir projects testResultsProcessor snapshotSerializers watchman file ui "
    "compiler extension write-file dir root stats-file profile json-file", is_abbreviated=False)  # fmt: skip
_PIP = ToolGuard(letters="it", long="python index-url extra-index-url target log config-settings global-option prefix root "
    "find-links report proxy cert client-cert build-option editable-src src dest cache-dir", valued="rce",
    known="install list show freeze check uninstall download index debug help hash inspect cache")  # fmt: skip
_NPM = ToolGuard(letters="cC", long="script-shell prefix userconfig globalconfig node-options init-module git editor viewer "
    "shell "
    "call registry cache pack-destination cwd modules-folder",
    known="test t run run-script start stop restart install i ci ls list outdated audit ll view info why explain fund prune "
    "dedupe root bin uninstall update pack version link rebuild build add remove lint dev")  # fmt: skip
_COMPILER = ToolGuard(letters="B", valued="IDLlWfOmgxU", operands=r"\A@", long="wrapper fplugin specs plugin fuse-ld load "
    "save-temps dumpdir dumpbase MF MD MMD aux-info")  # fmt: skip
_BINARY = ToolGuard(long="plugin script info-file", is_abbreviated=True)

GUARDS: dict[str, ToolGuard] = {
    "pytest": ToolGuard(options=r"--cov-report=(?!term(?:-missing)?(?::skip-covered)?\Z|(?:xml|html|lcov|json)?\Z)",
    letters="pcoW", valued="kmrn", is_abbreviated=False,
        long="pdbcls pdb trace config-file override-ini rootdir confcutdir basetemp junitxml junit-xml resultlog log-file "
        "debug "
        "cov-config plugin report-log html pastebin trace-config json-report-file json alluredir profile benchmark-json "
        "benchmark-storage benchmark-save benchmark-histogram memray-bin-path csv md-report-output nbval import-mode "
        "pythonwarnings"),
    "make": ToolGuard(letters="fEIC", valued="jlo", long="file makefile eval include-dir directory", operands="=|\\A@"),
    "npm": _NPM, "pnpm": _NPM, "yarn": _NPM, "pip": _PIP, "pip3": _PIP,
    "cargo": ToolGuard(letters="ZC", valued="pjF", is_abbreviated=False, operands=r"\A[@+]",
        long="config manifest-path target-dir out-dir artifact-dir registry index root lockfile-path timings git path",
        known="build b check c test t run r bench doc clippy fmt clean tree metadata fetch update add remove new init fix "
        "vendor "
        "search nextest install uninstall generate-lockfile locate-project pkgid verify-project"),
    "go": ToolGuard(letters="wC", is_abbreviated=False, operands=r"\A[@+]",
        long="exec toolexec overlay o modfile vettool ldflags gcflags asmflags gccgoflags modcacherw cpuprofile memprofile "
        "blockprofile mutexprofile trace coverprofile outputdir pkgdir compiler fuzz debug-actiongraph debug-trace",
        known="build test vet fmt list mod run doc env version get install clean generate work fix"),
    "tar": ToolGuard(letters="IFPCTXgV", valued="fb", operands=r"\A@|\A[^/=]*:|\A[a-zA-Z]*[IFPCTXgV][a-zA-Z]*\Z",
        long="use-compress-program to-command checkpoint-action info-script new-volume-script rsh-command rmt-command "
        "absolute-names directory files-from exclude-from index-file listed-incremental remove-files volno-file one-top-level "
        "transform xform overwrite-dir unlink-first recursive-unlink keep-directory-symlink"),
    "curl": ToolGuard(only=True, letters="sSfLIikvgGN#46", valued="HAXmeur",
        long="silent show-error fail fail-with-body location head include insecure verbose globoff get no-buffer progress-bar "
        "header user-agent request max-time connect-timeout retry retry-delay retry-all-errors compressed http1.1 http2 ipv4 "
        "ipv6 referer user range max-redirs url resolve no-progress-meter", operands=r"\A@"),
    "wget": ToolGuard(only=True, letters="qcvSN46", valued="tTwU",
        long="quiet continue no-verbose server-response timestamping tries timeout wait user-agent spider show-progress "
        "no-check-certificate header inet4-only max-redirect"),
    "rsync": ToolGuard(letters="eT", long="rsh rsync-path delete log-file remove-source-files files-from write-batch "
        "only-write-batch read-batch temp-dir backup-dir partial-dir compare-dest copy-dest link-dest daemon"),
    "zip": ToolGuard(letters="Tmb", valued="", long="unzip-command test move temp-path"), "unzip": ToolGuard(letters="d:"),
    "mypy": ToolGuard(valued="pmc", long="config-file python-executable install-types cache-dir junit-xml html-report "
        "txt-report xml-report any-exprs-report linecount-report lineprecision-report cobertura-xml-report linecoverage-report "
        "shadow-file custom-typeshed-dir custom-typing-module plugins"),
    "ruff": ToolGuard(letters="o", long="config output-file cache-dir add-noqa"), "black": ToolGuard(letters="c",
    long="config code"),
    "eslint": _NODE_CODE, "prettier": _NODE_CODE, "jest": _NODE_CODE, "vitest": _NODE_CODE, "mocha": _NODE_CODE,
    "webpack": _NODE_CODE, "vite": _NODE_CODE, "rollup": _NODE_CODE, "esbuild": _NODE_CODE, "stylelint": _NODE_CODE,
    "tsc": ToolGuard(letters="b", long="plugins outFile outDir build generateTrace generateCpuProfile tsBuildInfoFile "
    "declarationDir"), "gcc": _COMPILER, "g++": _COMPILER, "cc": _COMPILER, "c++": _COMPILER, "clang": _COMPILER,
    "clang++": _COMPILER,
    "rustc": ToolGuard(letters="CZ", long="codegen out-dir emit extern sysroot"),
    "cmake": ToolGuard(letters="ECP", valued="DSBG", long="build install toolchain graphviz trace-redirect profiling-output"),
    "docker": ToolGuard(letters="Hc", long="host context config", known="ps images logs inspect version info stats top port "
    "diff "
        "history"),
    "deno": ToolGuard(known="test check fmt lint info doc types bench", long="config import-map lock preload "
    "node-modules-dir output"),
    "bun": ToolGuard(known="test install", letters="rc", long="preload config cwd"),
    "tee": ToolGuard(), "dd": ToolGuard(operands="="), "yq": ToolGuard(letters="is", long="inplace split-exp"),
    "date": ToolGuard(letters="s", long="set"), "ctags": ToolGuard(letters="fo", long="options"),
    "tox": ToolGuard(letters="cx", long="conf override workdir result-json"), "nox": ToolGuard(letters="f",
    long="noxfile envdir report"),
    "gradle": ToolGuard(letters="IbcDPgp", long="init-script build-file settings-file project-dir include-build"),
    "mvn": ToolGuard(letters="fsDlgt", long="file settings log-file toolchains global"),
    "coverage": ToolGuard(letters="od", long="rcfile data-file directory"), "isort": ToolGuard(long="settings-path "
    "config-root settings-file"),
    "sqlite3": ToolGuard(letters="A", long="init cmd append archive deserialize nonce", is_abbreviated=False,
        operands=r"(?i)(?:\A|\n)\s*\.(?!(?:tables|schema|ind\w+|databases|headers|dump|mode|show|stats)\b)"
        r"|writefile|load_extension|edit *\(|\battach\b|\bvacuum\b.*\binto\b|fts3_tokenizer|pragma"),
    "sort": ToolGuard(letters="oTS", valued="kt", long="output temporary-directory compress-program files0-from"),
    "uniq": ToolGuard(valued="fsw", most=1), "xxd": ToolGuard(letters="ripb", valued="", most=1),
    "hostname": ToolGuard(most=0, letters="Fb"),
    "tree": ToolGuard(letters="oR", valued="LIP", long="output"), "rg": ToolGuard(letters="z", valued="ABCEefgjmMtTrd",
    long="pre hostname-bin search-zip"),
    "fd": ToolGuard(letters="xX", valued="dteEScj", long="exec exec-batch"), "file": ToolGuard(letters="Cm",
    long="compile magic-file"),
    "test": ToolGuard(letters="v", operands=r"\["), "[": ToolGuard(letters="v", operands=r"\A.*\["),
    "printf": ToolGuard(letters="v", operands="%[^a-zA-Z%]*n"),
    "sed": ToolGuard(letters="fi", valued="el", long="file in-place"), "diff": ToolGuard(letters="l", long="paginate"),
    "find": ToolGuard(options=r"-(?:exec|ok|delete|fprint|fls|files0)"), "split": ToolGuard(long="filter"),
    "csplit": ToolGuard(letters="f"),
    "cp": ToolGuard(letters="t", long="target-directory"), "mv": ToolGuard(letters="t", long="target-directory"),
    "install": ToolGuard(letters="ts", long="target-directory strip-program"), "patch": ToolGuard(letters="oderB",
    long="output directory ed reject-file"),
    "jq": ToolGuard(letters="L", valued="f"), "openssl": ToolGuard(long="out engine provider config keyout writerand"),
    "gofmt": ToolGuard(long="cpuprofile"), "protoc": ToolGuard(long="plugin"), "swc": _NODE_CODE, "babel": _NODE_CODE,
    "pylint": ToolGuard(long="load-plugins init-hook rcfile output"), "flake8": ToolGuard(long="config append-config "
    "output-file"),
    "sphinx-build": ToolGuard(letters="cDdw"), "ansible": ToolGuard(letters="me"), "pre-commit": ToolGuard(known="run",
    letters="c", long="config"),
    "ln": ToolGuard(), "mkdir": ToolGuard(), "touch": ToolGuard(),
} | dict.fromkeys(("nm", "objdump", "readelf", "size", "strings", "ld", "as", "ar", "objcopy", "strip"), _BINARY)  # fmt: skip

# Long options by which any program may run code or write a file of the caller's choice.
_FAMILIES = re.compile(
    r"--?(?:exec|eval|exec-batch|require|import|plugin|plugins|loader|preload|pager|editor|hook|shell|interpreter|wrapper"
    r"|output(?:-(?:file|dir|path|directory))?|out-?file|outputfile|log-?file|rcfile|init-file|init-script|to-command|rsh|pre)(?:=.*)?\Z"
)
_NEEDS = {"gzip": r"\A-[lt]", "unzip": r"\A-[lvtZ]", "sqlite3": r"(?:\A| )[^- ]\S* +[^- ]"}
_PRODUCT = re.compile(
    r"(?:\./)?(?:(?:build|dist|out|target|bin|obj)/[\w./+-]*|[\w+-]+\.(?:o|so|a|out|exe|obj|lo|wasm|gch)"
    r"|(?!makefile|gnumakefile|configure|gradlew|mvnw|justfile|manage|run|test)[a-z][a-z0-9_-]*)"
)
_AWK = re.compile(r"system|getline|[@`|]|>(?!=)|\\\n|close|fflush|ARG[VC]|printf? *>")
_SED = re.compile(
    r"(?:[\d$]+(?:,[\d$]+)?)? *(?:[pdq=]|[sy]([/|,#:@!])(?:(?!\1)[^\\\n\[;]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiI0-9]*)(?: *; "
    r"*[pdq])?|"
)

# Whatever their words are, a wildcard never covers these: they run what they are told, or let the user leave to a shell.
NEVER_BROAD = word_set(
    "sudo su doas pkexec runuser eval source . exec builtin trap alias unalias enable hash bind complete compgen mapfile "
    "readarray declare typeset local export readonly let coproc read unset getopts shopt set parallel watch ssh scp sftp "
    "script "
    "busybox toybox gdb lldb strace ltrace perf valgrind screen tmux expect socat nc ncat netcat telnet at batch crontab "
    "setsid "
    "chroot unshare nsenter bwrap systemd-run flock ionice chrt taskset setarch entr npx uvx pipx bunx less more most man "
    "info vi "
    "vim nvim view ex ed nano emacs pico joe env xargs osascript open xdg-open fish csh tcsh pwsh powershell cmd dbus-send "
    "machinectl ld.so rlwrap git-shell make-kpkg start-stop-daemon capsh prlimit run-parts mount umount insmod modprobe "
    "systemctl "
    "service docker-compose podman logrotate dpkg apt apt-get yum dnf pacman brew snap gem fc select tig gitk lazygit psql "
    "mysql "
    "mariadb mongosh duckdb redis-cli ftp lftp rsh dc m4 gnuplot octave sage R q kdb zmv vimdiff rview rvim"
)


def tool_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the words of a program by which it may do more than its plain use."""
    program = command.program.rpartition("/")[2]
    if program in NEVER_BROAD or program.startswith("ld-"):
        yield from (Risk(i, f"{program} runs whatever it is told") for i in range(1, len(command.words) + 1))
        return
    yield from (
        risk for risk in glob_risks(command) if program != "find" or command.words[risk.index - 1] not in ("-name", "-path")
    )
    guard = GUARDS.get(program)
    yield from (
        Risk(i, f"{command.program} {command.words[i]} may run or write something else") for i in _risky(command, guard)
    )
    if program in ("sed", "awk", "gawk", "mawk", "nawk"):
        yield from _script_risks(command, _SED.fullmatch if program == "sed" else lambda text: not _AWK.search(text))
    if program in _NEEDS and not re.search(_NEEDS[program], " ".join(command.words[1:])):
        yield Risk(len(command.words), f"{program} changes files or runs what comes from standard input")


def _risky(command: SimpleCommand, guard: ToolGuard | None) -> Iterator[int]:
    """Yield the places of the words that a guard, or a family of options, holds back."""
    known = word_set(guard.known) if guard else frozenset()
    operands = 0
    for i, word in enumerate(command.words[1:], 1):
        is_option = word.startswith("-") and word != "-"
        operands += not is_option
        if guard is None:
            is_risk = _FAMILIES.match(word) is not None
        elif is_option:
            is_risk = _is_risky_option(word, guard) or re.match(guard.options, word) is not None
        else:
            is_over = operands > guard.most or (guard.most < 1000 and command.globs[i] != "")
            is_risk = is_over or re.search(guard.operands, word) is not None
        if is_risk or (known and i == 1 and word not in known) or _writes_over(command.words, i):
            yield i


def _writes_over(words: tuple[str, ...], i: int) -> bool:
    """Tell whether a word names what a compiler writes, and that is nothing that one usually writes."""
    if GUARDS.get(words[0]) is not _COMPILER or not words[i].startswith("-o"):
        return False
    target = words[i][2:] or "".join(words[i + 1 : i + 2])
    return not (_PRODUCT.fullmatch(target) and ".." not in target)


def _is_risky_option(word: str, guard: ToolGuard) -> bool:
    names = guard.long.split()
    name = word.lstrip("-").partition("=")[0]
    is_long = word.startswith("--") or len(name) > 2
    if guard.only:
        return name not in names if word.startswith("--") else _leaves(word[1:], guard)
    if name in names or (guard.is_abbreviated and is_long and name and any(long.startswith(name) for long in names)):
        return True
    return not word.startswith("--") and _reaches(word[1:], guard)


def _leaves(letters: str, guard: ToolGuard) -> bool:
    """Tell whether a cluster of one-letter options holds one that is not covered."""
    for letter in letters:
        if letter in guard.valued:
            return False
        if letter not in guard.letters:
            return True
    return False


def _reaches(letters: str, guard: ToolGuard) -> bool:
    """Tell whether a cluster of one-letter options holds a risk before one that takes the rest as its value."""
    for letter in letters:
        if letter in guard.letters:
            return True
        if letter in guard.valued:
            return False
    return False


def _script_risks(command: SimpleCommand, is_plain: Callable[[str], object]) -> Iterator[Risk]:
    """Yield the scripts of a sed or awk command that may write or run something."""
    words = command.words
    given = [i for i in range(2, len(words)) if re.fullmatch(r"-[nErsuzi]*e|--expression", words[i - 1])]
    places = (
        given or [i for i, word in enumerate(words) if i and not word.startswith("-") and words[i - 1] not in ("-F", "-v")][:1]
    )
    yield from (Risk(i, f"the {command.program} script may write or run something") for i in places if not is_plain(words[i]))
    glued = r"-[nErsuzi]*e.|--expression=|-[fE](?:.|\Z)|--(?:file|exec|include|load|source)"
    glued = glued if command.program == "sed" else r"-[filEeo].*|--.*"
    yield from (
        Risk(i, f"{command.program} {word} is not looked into") for i, word in enumerate(words) if i and re.match(glued, word)
    )
