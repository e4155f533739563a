from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import Access, Mode, Verdict
from lmtui.core.prompt_text import fill_command
from tests.sets import for_each

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


def test_a_word_of_digits_is_no_descriptor() -> None:
    assert fill_command("echo $1>f", "2", ("2",))[0] == "echo '2'>f"


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
    command, _ = fill_command('cat "$1"', ".env", (".env",))
    decision = decide("shell", Access.EXECUTE, command, Mode.NORMAL, ())
    assert (decision.verdict, "secrets" in decision.why) == (Verdict.ASK, True)
    plain, _ = fill_command('cat "$1"', "a", ("a",))
    assert decide("shell", Access.EXECUTE, plain, Mode.NORMAL, (), is_read_only=True).verdict is Verdict.ALLOW
    hard, _ = fill_command('cat "$(echo "$1")"', "a", ("a",))
    decision = decide("shell", Access.EXECUTE, hard, Mode.NORMAL, ())
    assert (decision.verdict, decision.uncovered) == (Verdict.ASK, (hard,))
