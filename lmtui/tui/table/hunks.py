"""Commands of the approval of a change that has several hunks."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

HUNKS: tuple[Command, ...] = (
    Command("hunks.yes", Scope.HUNKS, "This hunk", "Accept the hunk that is marked and go to the next.", ("y",), "this hunk"),
    Command("hunks.all", Scope.HUNKS, "All", "Let the whole change happen this once.", ("Y",), "all", runs="approve_once"),
    Command("hunks.no", Scope.HUNKS, "Not this", "Reject the hunk that is marked and go to the next.", ("n",), "not this"),
    Command("hunks.none", Scope.HUNKS, "None", "Refuse the whole change.", ("N",), "none", runs="approve_no"),
    Command(
        "hunks.because", Scope.HUNKS, "No, because", "Refuse the whole change and tell the model why.",
        ("f",), "no, because…", runs="approve_because",
    ),
    Command(
        "hunks.next", Scope.HUNKS, "Next hunk", "Go to the next hunk.",
        ("right_square_bracket",), "next hunk",
    ),
    Command(
        "hunks.mode", Scope.HUNKS, "Mode", "Say why the mode stays as it is while this is asked.",
        ("shift+tab",), runs="approve_mode",
    ),
    Command("hunks.previous", Scope.HUNKS, "Hunk before", "Go to the hunk before.", ("left_square_bracket",), "before"),
    Command(
        "hunks.done", Scope.HUNKS, "Apply", "Apply the accepted hunks; those without an answer are not applied.",
        ("enter",), "apply",
    ),
    Command(
        "hunks.split", Scope.HUNKS, "Side by side", "Side by side, or one column.",
        ("u",), "side by side", runs="approve_split",
    ),
    Command(
        "hunks.session", Scope.HUNKS, "This session", "Let all of it happen now and whenever this session asks the same.",
        ("s",), "all this session", runs="approve_session",
    ),
    Command(
        "hunks.always", Scope.HUNKS, "Always", "Let all of it happen and keep a rule; asks which one and how far it reaches.",
        ("a",), "always…", runs="approve_always",
    ),
    Command(
        "hunks.why", Scope.HUNKS, "Why", "Say why it asks and what each answer would grant.",
        ("question_mark",), "why", runs="approve_why",
    ),
    Command(
        "hunks.batch", Scope.HUNKS, "All that wait", "Read everything that waits in this session and answer it at once.",
        ("w",), "all that wait…", runs="approve_all",
    ),
    Command(
        "hunks.later", Scope.HUNKS, "Later", "Leave it waiting and look at something else.",
        ("l",), "later", runs="approve_later",
    ),
)  # fmt: skip
