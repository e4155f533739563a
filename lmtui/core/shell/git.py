"""Options and subcommands by which git runs other programs or writes elsewhere; wildcards in rules do not cover them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmtui.core.shell.command import Risk, SimpleCommand, glob_risks, word_set

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
