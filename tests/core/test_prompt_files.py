from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import Access, Mode, Verdict
from lmtui.core.prompt_text import (
    FilledPrompt,
    Mention,
    PromptFile,
    TextPart,
    fill,
    fill_command,
    find_mentions,
    find_prompt,
    mention_text,
    slash_call,
)
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
    for piece, command in zip(marked, PromptFile("name", body, "").commands, strict=True):
        if "$" not in command:
            assert piece.text == command
    if "$" not in body and "!" not in body:
        assert text_of(body, arguments) == body + (f"\n\n{arguments}" if arguments.strip() else "")
    assert text_of("<$ARGUMENTS>", arguments) == f"<{arguments}>"


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


EVIL = "a;$(touch PWN)"


def said(shell: str, command: str, folder: Path | None = None) -> list[str]:
    done = subprocess.run([shell, "-c", command], capture_output=True, timeout=10, check=False, cwd=folder)
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


@for_each(("command", "filled"), [
    ('grep "$1" f', 'grep "a;\\$(touch PWN)" f'),
    ("grep $1 f", "grep 'a;$(touch PWN)' f"),
    ("grep \\$1 f", "grep \\$1 f"),
    ("awk '{print $1}' f", "awk '{print $1}' f"),
    ("ls # $1", "ls # $1"),
    ("ls a#$2", "ls a#b"),
    ("echo $$1", "echo $$1"),
    ("ls $10", "ls $10"),
    ("ls $3", "ls ''"),
    ('ls "it\'s $2"', 'ls "it\'s b"'),
    ("ls '\"' $2", "ls '\"' b"),
    ('echo "$ARGUMENTS" $ARGUMENTS', f"echo \"'a;\\$(touch PWN)' b\" '{EVIL}' b"),
    ("ls $ARGUMENTSX", "ls $ARGUMENTSX"),
])  # fmt: skip
def test_words_are_put_in_as_the_quotes_around_them_want_it(command: str, filled: str) -> None:
    assert fill_command(command, f"'{EVIL}' b", (EVIL, "b")) == (filled, filled != command)


@for_each("command", ['echo "$(grep "$1" f)"', "echo ${x:-$1}", 'echo "$1', "cat <<$1", "echo $'$1'", 'echo $"$1"'])
def test_where_quotes_are_not_plain_the_shell_is_given_the_words(command: str) -> None:
    assert fill_command(command, "a 'b c'", ("a", "b c")) == (
        f"set -- a 'b c'; ARGUMENTS='a '\"'\"'b c'\"'\"''; {command}", True,
    )  # fmt: skip


SHAPES = [
    '"$1"', "$1", '"-$1-"', "'x'\"$1\"'y'", '"it\'s $1"', "a\\'$1", '"$(printf %s "$1")"', '"${x:-$1}"', '"$1$1"', '\\\\"$1"',
]  # fmt: skip
WORDS = st.text(max_size=12) | st.lists(
    st.sampled_from(["$(touch PWN)", "`touch PWN`", '"', "'", "\\", ";", "#", "\n", "$", "!", "*"])
).map("".join)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@given(shape=st.sampled_from(SHAPES), word=WORDS.filter(lambda word: "\0" not in word and word == word.rstrip("\n")))
def test_any_word_reaches_a_program_as_it_is_and_nothing_of_it_runs(shell: str, shape: str, word: str) -> None:
    expected = {
        '"-$1-"': f"-{word}-", "'x'\"$1\"'y'": f"x{word}y", '"it\'s $1"': f"it's {word}", "a\\'$1": f"a'{word}",
        '"$1$1"': word * 2, '\\\\"$1"': f"\\{word}",
    }.get(shape, word)  # fmt: skip
    command, is_used = fill_command(f"printf '%s\\0' {shape} # $1", "", (word,))
    assert is_used
    assert said(shell, command) == [expected]


@given(
    body=st.lists(
        st.sampled_from(['"', "'", "\\", "$1", "$ARGUMENTS", "$(", ")", "${", "}", " ", "#", "x", "$", "((", "<<"])
    ).map("".join)
)
def test_nothing_that_was_typed_runs_whatever_the_file_says(tmp_path_factory: pytest.TempPathFactory, body: str) -> None:
    folder = tmp_path_factory.mktemp("work")
    word = "b;touch PWN\ntouch PWN;$(touch PWN)\"'`touch PWN`'\"$(touch PWN)"
    command, _ = fill_command(f": {body}", word, (word,))
    _ = said("/bin/bash", command, folder)
    assert not (folder / "PWN").exists()


def test_rules_see_the_words() -> None:
    assert fill_command("echo $1>f", "2", ("2",))[0] == "echo '2'>f", "a word of digits is no descriptor"
    command, _ = fill_command('cat "$1"', ".env", (".env",))
    decision = decide("shell", Access.EXECUTE, command, Mode.NORMAL, ())
    assert (decision.verdict, "secrets" in decision.why) == (Verdict.ASK, True)
    plain, _ = fill_command('cat "$1"', "a", ("a",))
    assert decide("shell", Access.EXECUTE, plain, Mode.NORMAL, (), is_read_only=True).verdict is Verdict.ALLOW
    hard, _ = fill_command('cat "$(echo "$1")"', "a", ("a",))
    decision = decide("shell", Access.EXECUTE, hard, Mode.NORMAL, ())
    assert (decision.verdict, decision.uncovered) == (Verdict.ASK, (hard,))


@for_each(("text", "call"), [
    ("/review", ("review", "")), ("/review  the parser \n", ("review", "the parser")),
    ("/review\nthe parser", ("review", "the parser")), ("/git:log x/y", ("git:log", "x/y")),
    ("/etc/hosts is wrong", None), ("/notes.txt is wrong", None), ("//comment", None), (" /review", None), ("/", None),
    ("/ review", None), ("look at /review", None), ("", None),
])  # fmt: skip
def test_the_first_word_says_whether_it_is_a_command(text: str, call: tuple[str, str] | None) -> None:
    assert slash_call(text) == call


@for_each(("text", "found"), [
    ("look at @a.py and @b/c.py.", [Mention("a.py"), Mention("b/c.py")]),
    ("(@a.py:10-20) @a.py:7, @a.py:0", [Mention("a.py", 10, 20), Mention("a.py", 7, 7), Mention("a.py", 1, 1)]),
    ("@a.py:20-10", [Mention("a.py", 20, 20)]),
    ('@"my notes/a b.md" and @"x y":3-4', [Mention("my notes/a b.md"), Mention("x y", 3, 4)]),
    ("@src/ twice @src/", [Mention("src/")]), ("me@example.org a/@b @ @... ", []),
    ("@@types/node", [Mention("@types/node")]), ('@"a:1"', [Mention("a:1")]),
    (f"@a:{'1' * 5000}", [Mention(f"a:{'1' * 5000}")]),
])  # fmt: skip
def test_what_is_mentioned_is_found_once_and_in_order(text: str, found: list[Mention]) -> None:
    assert list(find_mentions(text)) == found


@given(st.text(st.characters(exclude_characters='"\n', exclude_categories=["Cs"]), min_size=1))
def test_every_path_can_be_mentioned(path: str) -> None:
    assert find_mentions(f"see {mention_text(path)} now") == (Mention(path),)
