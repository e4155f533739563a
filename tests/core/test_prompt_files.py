from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from lmtui.commands.table import command_table
from lmtui.core.prompt_text import FilledPrompt, PromptFile, TextPart, fill, find_prompt, split_arguments
from tests.sets import for_each


def filled(body: str, arguments: str = "") -> FilledPrompt:
    return fill(PromptFile("name", body, "name.md"), arguments)


def text_of(body: str, arguments: str = "") -> str:
    return "".join(piece.text for piece in filled(body, arguments).pieces)


def commands_of(body: str, arguments: str = "") -> list[str]:
    return [piece.text for piece in filled(body, arguments).pieces if piece.is_command]


@for_each(("body", "arguments", "text"), [
    ("Fix $1 in $2.", "a b", "Fix a in b."), ("Fix $1 in $2.", "'a b' c", "Fix a b in c."),
    ("Fix $1.", "don't", "Fix don't."), ("Fix $3.", "a", "Fix ."), ("All: $ARGUMENTS", "a  'b c'", "All: a  'b c'"),
    ("$ARGUMENTSX", "a", "$ARGUMENTSX\n\na"), ("Costs $10 and $0", "", "Costs $10 and $0"),
    ("Costs $10", "a", "Costs $10\n\na"), ("No place.", "grüße 🌍", "No place.\n\ngrüße 🌍"), ("$1$2", "a b", "ab"),
    ("`code` and !no and !``", "", "`code` and !no and !``"),
])  # fmt: skip
def test_arguments_are_put_in(body: str, arguments: str, text: str) -> None:
    assert text_of(body, arguments) == text


def test_commands_are_pieces_of_their_own_and_words_in_them_are_quoted() -> None:
    assert filled("Look: !`git log $1`.", "a").pieces == (
        TextPart("Look: "), TextPart("git log a", is_command=True), TextPart("."),
    )  # fmt: skip
    assert commands_of("!`ls $1`", "'a; rm -rf b'") == ["ls 'a; rm -rf b'"]
    assert commands_of("!`ls $ARGUMENTS`", "a 'b c' $(id)") == ["ls a 'b c' '$(id)'"]
    assert commands_of("!`ls $10 $HOME`", "a") == ["ls $10 $HOME"]


ANY = st.text(max_size=60)
SIGNS = ["!`id`", "$1", "$2", "$ARGUMENTS", "@file", '"', "'", " ", "\\", "ä", "$10", "`"]
TRICKY = st.lists(st.sampled_from(SIGNS), max_size=12).map("".join)


@given(ANY | TRICKY, ANY | TRICKY)
def test_what_arguments_hold_is_never_expanded(body: str, arguments: str) -> None:
    marked = [piece for piece in filled(body, arguments).pieces if piece.is_command]
    assert len(marked) == len(PromptFile("name", body, "").commands)
    words = split_arguments(arguments)
    for piece, command in zip(marked, PromptFile("name", body, "").commands, strict=True):
        if "$" not in command:
            assert piece.text == command
    if "$" not in body and "!" not in body:
        assert text_of(body, arguments) == body + (f"\n\n{arguments}" if arguments.strip() else "")
    assert all(isinstance(word, str) for word in words)


@given(ANY | TRICKY)
def test_all_arguments_stand_in_place_of_their_sign_to_the_letter(arguments: str) -> None:
    assert text_of("<$ARGUMENTS>", arguments) == f"<{arguments}>"


@given(st.lists(st.text(min_size=1, max_size=10).filter(lambda word: "\0" not in word), min_size=1, max_size=9))
def test_quoted_words_come_back_whole_in_text_and_in_commands(words: list[str]) -> None:
    arguments = shlex.join(words)
    assert text_of("".join(f"<${number}>" for number in range(1, len(words) + 1)), arguments) == "".join(
        f"<{word}>" for word in words
    )
    assert shlex.split(commands_of("!`echo $ARGUMENTS`", arguments)[0])[1:] == words


def test_a_typed_text_finds_its_file() -> None:
    files = [
        PromptFile("fix", "Fix $1", "a.md"), PromptFile("sub:fix", "Sub", "b.md"),
        PromptFile("help", "x", "c", problem="hidden"),
    ]  # fmt: skip
    found = find_prompt(files, " /fix  me now ")
    assert found is not None
    assert (found.file.name, found.pieces[-1].text) == ("fix", "me")
    assert (find_prompt(files, "/sub:fix") or found).file.name == "sub:fix"
    assert [find_prompt(files, text) for text in ("fix", "/help", "/fixed", "/fix/me", "/usr/bin", "/", "")] == [None] * 7
    assert find_prompt(files, "/fix one\ntwo") is not None


def test_names_of_our_own_are_those_that_nothing_else_may_take() -> None:
    assert {"help", "commands", "quit", "mcp", "init"} <= set(command_table().names)
