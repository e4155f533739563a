"""What git commands do: the ones that only read, and the options by which git runs other programs or writes elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmtui.core.shell.command import SimpleCommand
from lmtui.core.shell.options import OptionGrammar, Review, Risk, glob_risks, read_options, word_set

_SHOW = OptionGrammar(
    flags="psuzqRwbacmrtgiEFP0vBMCDWeodkh", valued="nLSGU", has_numbers=True,
    long="oneline graph all stat shortstat numstat dirstat name-only name-status patch no-patch patch-with-stat summary "
    "cached "
    "staged merge-base no-color color color-words word-diff no-renames find-renames find-copies ignore-space-change minimal "
    "ignore-all-space ignore-blank-lines ignore-space-at-eol patience histogram no-merges merges first-parent reverse follow "
    "full-index abbrev-commit no-abbrev-commit decorate no-decorate branches tags remotes date-order topo-order abbrev "
    "author-date-order walk-reflogs left-right cherry-pick cherry-mark cherry no-ext-diff no-textconv no-prefix text binary "
    "exit-code quiet check function-context raw simplify-by-decoration full-history ancestry-path boundary parents children "
    "pickaxe-all pickaxe-regex ignore-case regexp-ignore-case extended-regexp fixed-strings perl-regexp all-match "
    "invert-grep "
    "source use-mailmap notes no-notes no-index compact-summary submodule relative no-relative unified format pretty date "
    "diff-filter diff-algorithm glob exclude count stdin objects symbolic-full-name verify short show-toplevel show-prefix "
    "show-cdup git-dir is-inside-work-tree abbrev-ref show-current porcelain short branch long ignored untracked-files "
    "no-optional "
    "others modified deleted exclude-standard full-name error-unmatch stage unmerged killed directory name-rev "
    "line-porcelain "
    "long dirty always match contains first-parent candidates exact-match numbered summary email is-ancestor octopus "
    "independent "
    "fork-point heads dereference hash ahead-behind no-ahead-behind column no-column renames no-walk "
    "cc combined-all-paths root",
    long_valued="author committer grep since until after before max-count skip word-diff-regex inter-hunk-context",
)  # fmt: skip
_SHORTLOG = OptionGrammar(flags="snec", long="numbered summary email committer no-merges merges all since until group")
_BLAME = OptionGrammar(
    flags="esfnwtlcMC", valued="L", long="line-porcelain porcelain show-email root show-name show-number date"
)
_GREP = OptionGrammar(
    flags="niIlLcwvEFGPhHoqpWra", valued="ABCefm", skipped=1, replaces_skipped="e f", has_numbers=True,
    long="cached untracked no-index line-number ignore-case word-regexp invert-match count files-with-matches name-only "
    "extended-regexp fixed-strings perl-regexp show-function break heading and or not all-match column only-matching color",
    long_valued="max-depth threads",
)  # fmt: skip
_LISTING = OptionGrammar(
    flags="arvlin0123456789", has_numbers=True,
    long="list all remotes verbose show-current contains no-contains merged no-merged points-at sort format color no-color "
    "column no-column ignore-case abbrev count",
)  # fmt: skip
_READING = {
    "status": _SHOW, "log": _SHOW, "diff": _SHOW, "show": _SHOW, "rev-parse": _SHOW, "ls-files": _SHOW, "ls-tree": _SHOW,
    "rev-list": _SHOW, "shortlog": _SHORTLOG, "describe": _SHOW, "name-rev": _SHOW, "merge-base": _SHOW, "diff-tree": _SHOW,
    "diff-index": _SHOW, "diff-files": _SHOW, "whatchanged": _SHOW, "show-ref": _SHOW, "range-diff": _SHOW, "cherry": _SHOW,
    "for-each-ref": _LISTING, "check-ignore": OptionGrammar(flags="qvnz", long="no-index verbose"), "grep": _GREP,
    "count-objects": OptionGrammar(flags="vH"), "cat-file": OptionGrammar(flags="tspe"), "blame": _BLAME, "annotate": _BLAME,
}  # fmt: skip
_GLOBAL_FLAGS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"})
_LISTERS = frozenset({"l", "list", "contains", "no-contains", "merged", "no-merged", "points-at"})
# A name outside this list may be an alias from the repository's own settings, which runs anything.
_KNOWN = word_set(
    "add am apply archive bisect blame branch bundle checkout cherry-pick clean clone commit config describe diff fetch "
    "format-patch gc grep init log ls-remote merge mv notes prune pull push range-diff rebase reflog remote reset restore "
    "revert "
    "rm show sparse-checkout stash status submodule switch tag worktree update-index read-tree write-tree commit-tree "
    "show-branch symbolic-ref var"
) | frozenset(_READING)
_RISKY_LONG = (
    "output", "ext-diff", "textconv", "open-files-in-pager", "upload-pack", "receive-pack", "exec", "template", "config",
    "separate-git-dir", "edit", "gpg-sign", "sign", "strategy", "tool", "extcmd", "help", "interactive", "remote-submodules",
    "show-signature", "filters", "local-user", "edit-todo", "edit-description",
)  # fmt: skip
_RISKY_LETTERS = {
    "commit": "eSct", "rebase": "xiSs", "clone": "cu", "pull": "sS", "merge": "eSs", "tag": "su", "am": "iS", "revert": "eSs",
    "cherry-pick": "eSs", "log": "O", "diff": "O", "show": "O", "grep": "O", "add": "ie", "archive": "o",
}  # fmt: skip
_VALUED_LETTERS = {"commit": "mFC", "tag": "mF", "clone": "bo", "log": "nLSG", "rebase": "", "merge": "mX", "archive": ""}
_NEVER = {("bisect", "run"), ("submodule", "foreach"), ("submodule", "add"), ("hook", "run"), ("remote", "add"),
          ("remote", "set-url"), ("notes", "edit")}  # fmt: skip


def review_git(command: SimpleCommand) -> Review:
    """Return what a git command does."""
    words = command.words
    at = 1
    risks: list[Risk] = []
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-C" and at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
        elif words[at] not in _GLOBAL_FLAGS:
            risks.append(Risk(at, f"git {words[at]} may run other programs or use another repository"))
        at += 1
    if at >= len(words):
        return Review(is_reader=not risks, risks=tuple(risks))
    if not risks:
        review = _reading(command, at)
        if review is not None:
            return review
    risks += _writing_risks(command, at)
    risks += glob_risks(command)
    return Review(risks=tuple(risks))


def _reading(command: SimpleCommand, at: int) -> Review | None:
    """Return the review of a subcommand in a form that only reads, None where it is not one."""
    words, name = command.words, command.words[at]
    rest = words[at + 1 :]
    if name not in _READING and not _is_listing(name, rest):
        return None
    grammar = _READING.get(name, _LISTING)
    start = at + 1 if name in _READING or name in ("branch", "tag") else len(words)
    plain = tuple("-M" if re.fullmatch(r"-[MCB]\d+%?|-[MC]", word) else word for word in words)
    reading = read_options(plain, grammar, start)
    if reading.unknown or any(glob_risks(command)):
        return None
    files = reading.operands[grammar.skipped :]
    if grammar.skipped and reading.names & set(grammar.replaces_skipped.split()):
        files = reading.operands
    return Review(is_reader=True, shows=() if name in ("status", "branch", "tag", "ls-files", "ls-tree") else files)


def _is_listing(name: str, rest: tuple[str, ...]) -> bool:
    """Tell whether a subcommand that may also write is in its listing form."""
    first = rest[0] if rest else ""
    match name:
        case "branch" | "tag":
            reading = read_options(rest, _LISTING, 0)
            return not reading.unknown and (not reading.operands or bool(reading.names & _LISTERS))
        case "remote":
            return rest in ((), ("-v",), ("--verbose",)) or (first == "get-url" and len(rest) == 2)
        case "stash":
            return first == "list" or (first == "show" and all(re.fullmatch(r"-p|--stat|stash@\{\d+\}", w) for w in rest[1:]))
        case "config":
            return first in ("--get", "--get-all", "--list", "-l") and not any(w.startswith("-") for w in rest[1:])
        case "reflog":
            return first not in ("expire", "delete", "exists", "drop", "write") and not read_options(rest, _SHOW, 0).unknown
        case "worktree":
            return rest in (("list",), ("list", "--porcelain"))
        case "submodule":
            return rest in ((), ("status",), ("status", "--recursive"))
    return False


def _writing_risks(command: SimpleCommand, at: int) -> Iterator[Risk]:
    """Yield the words by which a git command runs other programs, asks for an editor or writes outside its plain use."""
    words, name = command.words, command.words[at]
    if name not in _KNOWN:
        yield Risk(at, f"git {name} may be an alias of the repository")
        return
    rest = [(i, words[i]) for i in range(at + 1, len(words))]
    for i, word in rest:
        if word == "--":
            break
        why = f"git {name} {word} may run other programs or write elsewhere"
        if word.startswith("--"):
            if any(risky.startswith(word[2:].partition("=")[0]) for risky in _RISKY_LONG):
                yield Risk(i, why)
        elif word.startswith("-"):
            if _has_risky_letter(word, _RISKY_LETTERS.get(name, "S"), _VALUED_LETTERS.get(name, "")):
                yield Risk(i, why)
        elif "::" in word or (name, word) in _NEVER:
            yield Risk(i, why)
    if name == "config":
        yield from (Risk(i, "settings of git may name programs to run") for i, word in rest[:1])
        yield from (Risk(i, "settings of git may name programs to run") for i, word in rest[1:] if not word.startswith("-"))


def _has_risky_letter(word: str, risky: str, valued: str) -> bool:
    for letter in word[1:]:
        if letter in risky:
            return True
        if letter in valued:
            return False
    return False
