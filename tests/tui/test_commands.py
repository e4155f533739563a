from __future__ import annotations

import re
from collections import Counter

from textual.binding import Binding

from lmtui.commands.command import SlashCall
from lmtui.commands.table import command_table
from lmtui.tui.commands import COMMANDS, Scope, bindings, hint_text, of_scope
from lmtui.tui.controllers.command_controller import HAS_PALETTE
from tests.sets import for_each


def test_ids_and_slash_names_are_unique() -> None:
    assert [name for name, count in Counter(each.id for each in COMMANDS).items() if count > 1] == []
    names = Counter(name for each in COMMANDS for name in (*each.slash, *each.aliases))
    assert [name for name, count in names.items() if count > 1] == []
    listed = [each for each in COMMANDS if each.scope in (Scope.APP, Scope.WORKBENCH) and not each.is_rare]
    assert len(listed) <= 40


def test_keys_are_few_and_what_has_none_is_found_in_a_palette() -> None:
    keys = {key for each in COMMANDS for way in each.ways for key in way.keys if key}
    assert len(keys) <= 60
    assert len([key for key in keys if re.fullmatch(r"f\d+|alt\+.+", key)]) <= 24
    scopes = (Scope.APP, *HAS_PALETTE)
    assert [each.id for each in COMMANDS if not each.keys and each.scope not in scopes] == []


WINS_OVER_THE_APP = {
    "plan.toggle",
    "prompt.complete",
    "question.why",
    "log.in_chat",  # the log has no next call
    "viewer.file",  # until the text has the keys
}
OF_QUESTIONS = ("b", "up", "down")  # a question has these before its text
NAMED = command_table()
MEETING = [
    (Scope.APP, Scope.WORKBENCH, Scope.PROMPT),
    *((Scope.APP, Scope.MOVING, scope) for scope in (Scope.APPROVAL, Scope.HUNKS, Scope.CHANGES, Scope.RESTORE, Scope.TRUST)),
    (Scope.APP, Scope.EDIT),
    (Scope.APP, Scope.WORKBENCH, Scope.MOVING, Scope.FILES),
    (Scope.APP, Scope.WORKBENCH, Scope.MOVING, Scope.LINES, Scope.LOG),
    (Scope.APP, Scope.PICKER),
    (Scope.APP, Scope.MOVING, Scope.VIEWER),
]


@for_each("scopes", MEETING)
def test_no_key_means_two_things_where_scopes_meet(scopes: tuple[Scope, ...]) -> None:
    keys = Counter(key for each in of_scope(*scopes) for key in each.keys if each.id not in WINS_OVER_THE_APP)
    keys -= Counter(OF_QUESTIONS if scopes[-1] in (Scope.APPROVAL, Scope.HUNKS) else ())
    assert [key for key, count in keys.items() if count > 1] == []


@for_each("scope", sorted({each.scope for each in COMMANDS}))
def test_every_binding_can_be_named_by_its_command(scope: str) -> None:
    ids = dict.fromkeys(each.id for each in bindings(scope) if isinstance(each, Binding))
    assert [*ids] == [each.id for each in of_scope(scope) if each.keys]


@for_each("text", ["fix it", "/usr/bin/python is broken", "a /help", "/", "/file.txt what is it"])
def test_other_text_and_paths_go_to_the_model(text: str) -> None:
    assert NAMED.parse(text) is None


def test_the_argument_of_a_slash_command_is_kept_and_completion_ends_with_it() -> None:
    call = NAMED.parse("/mode   auto ")
    assert call is not None
    assert (call.name, call.argument) == ("mode", "auto")
    assert (unknown := NAMED.parse("/etc")) is None or unknown.command is None
    assert [name for name, _ in NAMED.complete("/sess")] == ["sessions"]
    assert [name for name, _ in NAMED.complete("/gat")] == ["gates"]
    assert NAMED.parse("/remember that") == SlashCall("remember", "add that", NAMED.by_id("memory.show"))
    assert NAMED.complete("/mode ") == []
    assert NAMED.complete("hello") == []
    NAMED.used("jobs")
    found = NAMED.complete("/")
    assert [name for name, _ in found[:3]] == ["jobs", "new", "sessions"]
    assert len(found) <= 32


def test_a_hint_names_key_and_verb() -> None:
    assert hint_text(of_scope(Scope.CONFIRM)) == "y yes · n no"
