"""Programs that a rule may allow, with what of them a wildcard in the rule does not cover: running and writing elsewhere.

An entry lists options by which the program runs something else, loads code, or writes to a file of the caller's choice.
Rules for programs without an entry cover every word: the user named them, and nothing is known of their options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lmtui.core.shell.command import SimpleCommand
from lmtui.core.shell.options import Review, Risk, glob_risks, word_set


@dataclass(frozen=True, slots=True)
class ToolGuard:
    """What a wildcard does not cover.

    Args:
        letters: one-letter options that are risks; `valued` are harmless ones with a value (it ends a cluster).
        long: long options that are risks, also abbreviated, with one dash or two.
        known: the only subcommands that a wildcard covers, where the program can be taught others.
        no_assignments: an operand `NAME=value` is a risk.
        is_abbreviated: the program takes the beginning of a long option for the option.
    """

    letters: str = ""
    valued: str = ""
    long: str = ""
    known: str = ""
    no_assignments: bool = False
    is_abbreviated: bool = True


_NODE_CODE = ToolGuard(letters="cr", long="config plugin rulesdir resolve-plugins-relative-to require import loader "
"globalSetup "
                       "setupFiles transform runner testRunner env environment output-file outputFile")  # fmt: skip
_PIP = ToolGuard(letters="it", long="python index-url extra-index-url target log config-settings global-option prefix root "
"find-links",
                 valued="rce", known="install list show freeze check uninstall download index debug help hash inspect "
                 "cache")  # fmt: skip
_NPM = ToolGuard(
    long="script-shell prefix userconfig globalconfig node-options init-module git editor viewer shell call registry cache",
    letters="cC", known="test t run run-script start stop restart install i ci ls list outdated audit ll view info why "
    "explain fund "
    "prune dedupe root bin uninstall update pack version link rebuild build add remove lint dev",
)  # fmt: skip
_COMPILER = ToolGuard(letters="B", long="wrapper fplugin specs plugin fuse-ld load", valued="oIDLlWfOmgx")

GUARDS: dict[str, ToolGuard] = {
    "pytest": ToolGuard(is_abbreviated=False,
        letters="pco", valued="kmrnW",
        long="pdbcls pdb trace config-file override-ini rootdir confcutdir basetemp junitxml junit-xml resultlog log-file "
        "debug "
        "cov-config plugin report-log html",
    ),
    "make": ToolGuard(
        letters="fEIC", valued="jlo", long="file makefile eval include-dir directory", no_assignments=True,
    ),
    "npm": _NPM, "pnpm": _NPM, "yarn": _NPM, "pip": _PIP, "pip3": _PIP,
    "cargo": ToolGuard(is_abbreviated=False,
        letters="ZC", valued="pjF", long="config manifest-path target-dir out-dir artifact-dir registry index",
        known="build b check c test t run r bench doc clippy fmt clean tree metadata fetch update add remove new init fix "
        "vendor "
        "search nextest install uninstall generate-lockfile locate-project pkgid verify-project",
    ),
    "go": ToolGuard(is_abbreviated=False,
        letters="wC", long="exec toolexec overlay o modfile vettool ldflags gcflags asmflags gccgoflags modcacherw "
        "cpuprofile memprofile blockprofile mutexprofile trace coverprofile outputdir pkgdir compiler fuzz",
        known="build test vet fmt list mod run doc env version get install clean generate work fix",
    ),
    "tar": ToolGuard(
        letters="IFPC", valued="f",
        long="use-compress-program to-command checkpoint-action info-script new-volume-script rsh-command rmt-command "
        "absolute-names directory",
    ),
    "curl": ToolGuard(
        letters="oOKTDcFxJ", valued="HAXmwueb",
        long="output remote-name config upload-file dump-header cookie-jar form trace stderr unix-socket proxy engine "
        "netrc-file "
        "create-dirs hsts alt-svc etag-save libcurl data data-binary data-urlencode",
    ),
    "wget": ToolGuard(letters="OPeio", long="output-document directory-prefix execute input-file output-file use-askpass "
    "config"),
    "rsync": ToolGuard(letters="e", long="rsh rsync-path delete log-file remove-source-files"),
    "zip": ToolGuard(letters="T", long="unzip-command test"),
    "mypy": ToolGuard(letters="", valued="pmc", long="config-file python-executable install-types cache-dir junit-xml "
    "html-report"),
    "ruff": ToolGuard(letters="o", long="config output-file cache-dir"),
    "black": ToolGuard(letters="c", long="config code"),
    "eslint": _NODE_CODE, "prettier": _NODE_CODE, "jest": _NODE_CODE, "vitest": _NODE_CODE, "mocha": _NODE_CODE,
    "webpack": _NODE_CODE, "vite": _NODE_CODE, "rollup": _NODE_CODE, "tsc": ToolGuard(long="plugins outFile outDir build"),
    "gcc": _COMPILER, "g++": _COMPILER, "cc": _COMPILER, "c++": _COMPILER, "clang": _COMPILER, "clang++": _COMPILER,
    "rustc": ToolGuard(letters="CZ", long="codegen"), "cmake": ToolGuard(letters="ECP", valued="DSBG",
    long="build install toolchain"),
    "docker": ToolGuard(letters="Hc", long="host context config",
    known="ps images logs inspect version info stats top port diff history"),
    "deno": ToolGuard(known="test check fmt lint info doc types bench"), "bun": ToolGuard(known="test install"),
    "tee": ToolGuard(), "dd": ToolGuard(no_assignments=True), "yq": ToolGuard(letters="i", long="inplace"),
    "date": ToolGuard(letters="s", long="set"), "ctags": ToolGuard(long="options", letters="f"),
    "tox": ToolGuard(letters="cx", long="conf override workdir"), "nox": ToolGuard(letters="f", long="noxfile"),
    "gradle": ToolGuard(letters="IbcDPg", long="init-script build-file settings-file"), "mvn": ToolGuard(letters="fsD"),
    "coverage": ToolGuard(long="rcfile"), "isort": ToolGuard(long="settings-path config-root"),
    "sqlite3": ToolGuard(long="init cmd"),
    "ln": ToolGuard(), "mkdir": ToolGuard(), "touch": ToolGuard(),
}  # fmt: skip

# Whatever their words are, a wildcard never covers these: they run what they are told, or let the user leave to a shell.
NEVER_BROAD = word_set(
    "sudo su doas pkexec runuser eval source . exec builtin trap alias unalias enable hash bind complete compgen mapfile "
    "readarray "
    "declare typeset local export readonly let coproc read unset getopts shopt parallel watch ssh scp sftp script busybox "
    "toybox gdb "
    "lldb strace ltrace perf valgrind screen tmux expect socat nc ncat netcat telnet at batch crontab setsid chroot unshare "
    "nsenter "
    "bwrap systemd-run flock ionice chrt taskset setarch entr npx uvx pipx bunx less more most man info vi vim nvim view ex "
    "ed nano "
    "emacs pico joe env xargs osascript open xdg-open fish csh tcsh pwsh powershell cmd dbus-send machinectl ld.so rlwrap "
    "git-shell "
    "make-kpkg start-stop-daemon capsh prlimit run-parts mount umount insmod modprobe systemctl service docker-compose "
    "podman "
    "logrotate dpkg apt apt-get yum dnf pacman brew snap gem fc select tig gitk lazygit"
)


def review_tool(command: SimpleCommand) -> Review:
    """Return the risks of a program that may do more than read."""
    program = command.program.rpartition("/")[2]
    if program in NEVER_BROAD or program.startswith("ld-"):
        why = f"{program} runs whatever it is told"
        places = range(1, len(command.words) + 1)
        return Review(risks=tuple(Risk(i, why) for i in places))
    risks = list(glob_risks(command))
    guard = GUARDS.get(program)
    if guard is not None:
        risks += _guarded(command, guard)
    if program == "tar":
        risks += _tar_risks(command)
    return Review(risks=tuple(risks))


def _guarded(command: SimpleCommand, guard: ToolGuard) -> Iterator[Risk]:
    known = word_set(guard.known)
    for i, word in enumerate(command.words[1:], 1):
        if word == "--":
            return
        is_taught = bool(known) and i == 1 and word not in known
        if is_taught or (_is_risky_option(word, guard) if word.startswith("-") else _is_risky_operand(word, guard)):
            yield Risk(i, f"{command.program} {word} may run or write something else")


def _is_risky_operand(word: str, guard: ToolGuard) -> bool:
    return word.startswith("@") or (guard.no_assignments and "=" in word) or (bool(guard.known) and word.startswith("+"))


def _is_risky_option(word: str, guard: ToolGuard) -> bool:
    names = guard.long.split()
    name = word.lstrip("-").partition("=")[0]
    is_long = word.startswith("--") or len(name) > 2
    if name in names or (guard.is_abbreviated and is_long and name and any(long.startswith(name) for long in names)):
        return True
    return not word.startswith("--") and _reaches(word[1:], guard)


def _reaches(letters: str, guard: ToolGuard) -> bool:
    """Tell whether a cluster of one-letter options holds a risk before one that takes the rest as its value."""
    for letter in letters:
        if letter in guard.letters:
            return True
        if letter in guard.valued:
            return False
    return False


def _tar_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield what is special to tar: the old form `tar cfI …`, and archives on another machine (`host:file`)."""
    for i, word in enumerate(command.words[1:], 1):
        if (i == 1 and not word.startswith("-") and re.search(r"[IFPC]", word)) or re.search(r"\A[^/=]*:", word):
            yield Risk(i, f"tar {word} may run something else")
