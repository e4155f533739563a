"""Run git with programs and prompts off: only the subcommands that tools need, and no option that turns them on again.

Drivers (filters, merge and diff programs) have names that the repository chooses: those that exist are listed and switched off.
The identity in the global configuration counts only where the repository has its own none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .beneath import Refused
from .settings import Settings

_HERE = Path(__file__).resolve().parent
_READS = frozenset((
    "blame", "branch", "cat-file", "check-ignore", "describe", "diff", "diff-tree", "for-each-ref", "grep", "log", "ls-files",
    "ls-tree", "merge-base", "name-rev", "rev-list", "rev-parse", "shortlog", "show", "show-ref", "status", "tag", "var",
))  # fmt: skip
_WRITES = _READS | frozenset((
    "add", "checkout", "cherry-pick", "commit", "init", "merge", "mv", "rebase", "reset", "restore", "revert", "rm", "stash",
    "switch",
))  # fmt: skip
_SHOW_DIFFS = frozenset(("diff", "log", "show", "diff-tree", "stash"))
_FORBIDDEN = (
    "--output", "--ext-diff", "--textconv", "--upload-pack", "--receive-pack", "--exec", "--exec-path", "--config-env",
    "--git-dir", "--work-tree", "--template", "--separate-git-dir", "--open-files-in-pager", "--no-index", "--edit",
    "--interactive", "--patch-with-editor", "--super-prefix", "--namespace", "--submodule",
)  # fmt: skip
_FORBIDDEN_SHORT = {"grep": ("-O",), "rebase": ("-x", "-i"), "diff": ("-O",), "log": ("-O",), "show": ("-O",)}
_DRIVERS = r"^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver|diff\..*\.(textconv|command))$"
_SWITCHED_OFF = {("merge", "driver"): "false", ("diff", "textconv"): "cat", ("diff", "command"): "false"}
_CONFIG_S = 5.0
_SUBMODULE = "160000 "  # the mode of one in git's index
_MOST_REPOSITORIES = 200
_OPTIONS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.editor=false", "core.sshCommand=false",
    "core.askPass=", "credential.helper=", "diff.external=", "sequence.editor=false", "commit.gpgSign=false",
    "tag.gpgSign=false", "gpg.program=false", "gc.auto=0", "maintenance.auto=false", "protocol.allow=never",
    "safe.bareRepository=explicit", "safe.directory=*", "submodule.recurse=false", "color.ui=false",
    "advice.detachedHead=false", "init.defaultBranch=main", "log.showSignature=false", "gpg.ssh.program=false",
    "gpg.x509.program=false", "gpg.ssh.defaultKeyCommand=false", "core.alternateRefsCommand=false",
    "diff.submodule=short", "status.submoduleSummary=false",
)  # fmt: skip


def command(arguments: list[str], settings: Settings) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the argument list and the environment for a git call.

    Raises:
        Refused: git is off here, not installed, or the call is not one of those that are allowed.
    """
    if not settings.has_git:
        raise Refused("git is not available without a sandbox")
    program = shutil.which("git", path=settings.environment.get("PATH", os.defpath))
    if program is None:
        raise Refused("git is not installed in the sandbox")
    _check(arguments, _WRITES if settings.git_writes else _READS)
    options = [piece for option in (*_OPTIONS, f"core.excludesFile={_HERE}/gitignore") for piece in ("-c", option)]
    locks = [] if settings.git_writes else ["--no-optional-locks"]
    plain = ["--no-ext-diff", "--no-textconv"] if arguments[0] in _SHOW_DIFFS - {"stash"} else []
    plain += ["--no-textconv"] if arguments[0] in ("blame", "grep") else []
    plain += (
        ["--ignore-submodules=dirty"] if arguments[0] in ("diff", "status") else []
    )  # else git runs there, without these options
    whole = (program, *options, "--no-pager", *locks, arguments[0], *plain, *arguments[1:])
    return whole, {**settings.environment, **_environment()}


def without_drivers(environment: dict[str, str], program: str, settings: Settings) -> dict[str, str]:
    """Return the environment of a git call with every driver switched off that settings name, submodules' too.  Blocks.

    Git runs itself in submodules (`git add .` asks each what changed), and hands this environment on.  Where git writes, a
    file that wants a filter is refused rather than stored unfiltered; submodules are only compared.

    Raises:
        Refused: the settings cannot be read, or there are too many submodules.
    """
    values: dict[str, str] = {}
    for at, folder in enumerate(_repositories(environment, program, settings.root)):
        for name in _listed(
            environment, program, folder, "config", "--includes", "-z", "--name-only", "--get-regexp", _DRIVERS
        ):
            kind, last = name.split(".")[0], name.rpartition(".")[2]
            if last != "required":
                values[name] = _SWITCHED_OFF.get((kind, last), "")
            if kind == "filter":
                values.setdefault(f"{name.rpartition('.')[0]}.required", str(settings.git_writes and at == 0).lower())
    pairs = {f"GIT_CONFIG_KEY_{i}": name for i, name in enumerate(values)}
    pairs |= {f"GIT_CONFIG_VALUE_{i}": value for i, value in enumerate(values.values())}
    return {**environment, **pairs, "GIT_CONFIG_COUNT": str(len(values))}


def _repositories(environment: dict[str, str], program: str, root: str) -> list[str]:
    """Return the workspace and its submodules, recursively, as far as git would enter them."""
    found = [os.path.realpath(root)]
    for folder in found:
        for entry in _listed(environment, program, folder, "ls-files", "--stage", "-z"):
            inner = f"{folder}/{entry.partition(chr(9))[2]}"
            if entry.startswith(_SUBMODULE) and os.path.lexists(f"{inner}/.git") and os.path.realpath(inner) == inner:
                found.append(inner)
        if len(found) > _MOST_REPOSITORIES:
            raise Refused(f"there are more than {_MOST_REPOSITORIES} submodules")
    return found


def _listed(environment: dict[str, str], program: str, folder: str, *arguments: str) -> list[str]:
    """Return the NUL-separated output of a git call; nothing outside a repository."""
    command = [program, "-c", "core.fsmonitor=false", *arguments]
    try:
        found = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CONFIG_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("reading git's settings took too long") from error
    is_none = b"not a git repository" in found.stderr or b"not in a git directory" in found.stderr
    if found.returncode not in (0, 1) and not is_none:  # git-config(1): 1 means not set
        raise Refused(f"git's settings could not be read: {os.fsdecode(found.stderr[-500:]).strip()}")
    return [entry for entry in os.fsdecode(found.stdout).split("\0") if entry]


def _environment() -> dict[str, str]:
    return {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(_HERE / "gitconfig"),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_LITERAL_PATHSPECS": "1",
    }


def _check(arguments: list[str], allowed: frozenset[str]) -> None:
    if not arguments:
        raise Refused("git: no subcommand")
    subcommand = arguments[0]
    if subcommand not in allowed:
        raise Refused(f"git {subcommand} is not allowed here")
    for argument in arguments[1:]:
        if "\0" in argument:
            raise Refused("git: an argument has a NUL character in it")
        if argument in ("--", "--end-of-options"):
            return
        name = argument.split("=", 1)[0]
        is_long = len(name) > 3 and name.startswith("--") and any(option.startswith(name) for option in _FORBIDDEN)
        if is_long or name in _FORBIDDEN or argument.startswith(_FORBIDDEN_SHORT.get(subcommand, ("\0",))):
            raise Refused(f"git {subcommand}: the option {name} is not allowed")
