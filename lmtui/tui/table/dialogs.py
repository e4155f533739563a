"""Commands of questions, lists and other dialogs."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope
from lmtui.tui.table.hunks import HUNKS

DIALOGS: tuple[Command, ...] = (
    Command("approve.once", Scope.APPROVAL, "Once", "Let it run this once.", ("y",), "once"),
    Command(
        "approve.session", Scope.APPROVAL, "This session", "Let it run now and whenever this session asks the same.",
        ("s",), "this session",
    ),
    Command(
        "approve.always", Scope.APPROVAL, "Always", "Let it run and keep a rule; asks which one and how far it reaches.",
        ("a",), "always…",
    ),
    Command("approve.no", Scope.APPROVAL, "No", "Refuse it.", ("n",), "no"),
    Command("approve.because", Scope.APPROVAL, "No, because", "Refuse it and tell the model why.", ("f",), "no, because…"),
    Command("approve.edit", Scope.APPROVAL, "Edit", "Change the command; only what you leave there runs.", ("e",), "edit"),
    Command(
        "approve.why", Scope.APPROVAL, "Why", "Say why it asks and what each answer would grant.",
        ("question_mark",), "why",
    ),
    Command(
        "approve.all", Scope.APPROVAL, "All of them", "Read everything that waits in this session and answer it at once.",
        ("Y",), "all that wait…",
    ),
    Command("approve.later", Scope.APPROVAL, "Later", "Leave it waiting and look at something else.", ("l",), "later"),
    Command("approve.mode", Scope.APPROVAL, "Mode", "Say why the mode stays as it is while this is asked.", ("shift+tab",)),
    Command("approve.split", Scope.APPROVAL, "Side by side", "Side by side, or one column.", ("u",), "side by side"),
    *HUNKS,
    Command("grant.choose", Scope.GRANT, "Grant", "Let it run and keep the marked rule.", ("enter",), "grant", is_first=True),
    Command("edit.send", Scope.EDIT, "Run", "Run what stands there, this once.", ("enter",), "run this once", is_first=True),
    Command("edit.newline", Scope.EDIT, "New line", "Begin another line.", ("ctrl+j",), "line", is_first=True),
    Command("batch.once", Scope.BATCH, "All once", "Let all that is listed run this once.", ("y",), "yes to all, once"),
    Command("batch.no", Scope.BATCH, "None", "Refuse all that is listed.", ("n",), "no to all"),
    Command("rules.revoke", Scope.RULES, "Revoke", "Take the marked rule back, after asking.", ("d",), "revoke"),
    Command("trust.yes", Scope.TRUST, "Trust", "Let these hold from now on.", ("t",), "trust these"),
    Command("trust.no", Scope.TRUST, "Not now", "Go on without them.", ("n",), "not now"),
    Command("trust.reach", Scope.TRUST, "Servers", "Choose where a server runs.", ("s",), "where a server runs…"),
    Command("trust.look", Scope.TRUST, "Look", "Show a file that they come from.", ("v",), "look at the file"),
    Command("trust.list", Scope.TRUST, "Trusted", "See what of the folder is trusted by now.", ("l",), "what is trusted"),
    Command(
        "trusted.revoke", Scope.TRUSTED, "Take back", "Trust nothing of this folder any more, after asking.",
        ("d",), "take it back",
    ),
    Command("picker.open", Scope.PICKER, "Choose", "Choose the marked line.", ("enter",), "choose", is_first=True),
    Command("picker.up", Scope.PICKER, "Line before", "Mark the line before.", ("up",), is_first=True),
    Command("picker.down", Scope.PICKER, "Next line", "Mark the next line.", ("down",), is_first=True),
    Command("confirm.yes", Scope.CONFIRM, "Yes", "Do it.", ("y",), "yes"),
    Command("confirm.no", Scope.CONFIRM, "No", "Leave everything as it is.", ("n",), "no"),
    Command("first.start", Scope.FIRST_RUN, "Start", "Use the marked line.", ("enter",), "start"),
    Command("first.trust", Scope.FIRST_RUN, "Look", "See what the folder brings that waits for your word.", ("t",), "look"),
    Command("first.again", Scope.FIRST_RUN, "Look again", "Look for servers again.", ("r",), "look again"),
    Command(
        "settings.change", Scope.SETTINGS, "Change", "Change the marked setting in your own config.toml.",
        ("enter",), "change", is_first=True,
    ),
    Command(
        "settings.reset", Scope.SETTINGS, "Forget", "Take the marked setting out of your own config.toml.",
        ("delete",), "back to what it was", is_first=True,
    ),
    Command("settings.up", Scope.SETTINGS, "Setting before", "Mark the setting before.", ("up",), is_first=True),
    Command("settings.down", Scope.SETTINGS, "Next setting", "Mark the next setting.", ("down",), is_first=True),
)  # fmt: skip
