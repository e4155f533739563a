"""The words by which git runs other programs or writes elsewhere: what a wildcard in a rule does not cover."""

from __future__ import annotations

from collections.abc import Iterator

from lmtui.core.shell.command import Risk, SimpleCommand, glob_risks, word_set

_GLOBAL_FLAGS = word_set("--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects")
# A name outside this list may be an alias from the repository's own settings, which runs anything.
_KNOWN = word_set(
    "add am apply archive bisect blame branch bundle checkout cherry-pick clean clone commit config describe diff fetch "
    "format-patch gc grep init log ls-remote merge mv notes prune pull push range-diff rebase reflog remote reset restore "
    "revert "
    "rm show sparse-checkout stash status submodule switch tag worktree update-index read-tree write-tree commit-tree "
    "show-branch symbolic-ref var rev-parse ls-files ls-tree rev-list shortlog name-rev merge-base diff-tree diff-index "
    "diff-files whatchanged show-ref cherry for-each-ref check-ignore count-objects cat-file annotate"
)
_RISKY_LONG = (
    "output", "ext-diff", "textconv", "open-files-in-pager", "upload-pack", "receive-pack", "exec", "template", "config",
    "separate-git-dir", "edit", "gpg-sign", "sign", "strategy", "tool", "extcmd", "help", "interactive", "remote-submodules",
    "show-signature", "filters", "local-user", "edit-todo", "edit-description",
)  # fmt: skip
_RISKY_LETTERS = {
    "commit": "eSct", "rebase": "xiSs", "clone": "cu", "pull": "sS", "merge": "eSs", "tag": "su", "am": "iS", "revert": "eSs",
    "cherry-pick": "eSs", "log": "O", "diff": "O", "show": "O", "grep": "O", "add": "ie", "archive": "o", "format-patch": "o",
}  # fmt: skip
_VALUED_LETTERS = {"commit": "mFC", "tag": "mF", "clone": "bo", "log": "nLSG", "rebase": "", "merge": "mX", "archive": ""}
_NEVER = {("bisect", "run"), ("submodule", "foreach"), ("submodule", "add"), ("hook", "run"), ("remote", "add"),
          ("remote", "set-url"), ("notes", "edit"), ("bundle", "create")}  # fmt: skip


def git_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the words by which a git command runs other programs, asks for an editor or writes outside its plain use."""
    words = command.words
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-C" and at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
        elif words[at] not in _GLOBAL_FLAGS:
            yield Risk(at, f"git {words[at]} may run other programs or use another repository")
        at += 1
    if at < len(words):
        yield from _subcommand_risks(command, at)
        yield from glob_risks(command)


def _subcommand_risks(command: SimpleCommand, at: int) -> Iterator[Risk]:
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
