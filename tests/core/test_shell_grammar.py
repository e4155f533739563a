from __future__ import annotations

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import Access, Decision, Effect, Mode, Rule, Verdict, parse_rule
from lmtui.core.permissions.shell_grammar import MAX_BYTES, MAX_COMMANDS, MAX_WORDS, NotUnderstood, outline, parse, read_word
from tests.sets import for_each


def words(text: str) -> list[list[str]]:
    parsed = parse(text)
    assert parsed.problem == ""
    return [list(command.words) for command in parsed.commands]


@for_each(("text", "expected"), [
    ("ls -la", [["ls", "-la"]]),
    ("a;b&&c||d|e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    ("a\nb # c\n# d\ne", [["a"], ["b"], ["e"]]),
    ("a # b\nc", [["a"], ["c"]]),
    ("a #b\\\nc", [["a"], ["c"]]),
    ("a;\n\n b |\n c;", [["a"], ["b"], ["c"]]),
    ("echo 'a b' \"c d\" e\\ f g'h'\"i\"", [["echo", "a b", "c d", "e f", "ghi"]]),
    ('echo "a\\"b\\$c\\\\" \'$x\'', [["echo", 'a"b$c\\', "$x"]]),
    ("a >/dev/null 2>&1 </dev/null", [["a"]]),
    ("a \\\n b", [["a", "b"]]),
    ("echo $? \"$?\"", [["echo", "0", "0"]]),
    ("git diff HEAD~1 HEAD^ @{u} a..b", [["git", "diff", "HEAD~1", "HEAD^", "@{u}", "a..b"]]),
    ("[ -f a/b ] && [ ! -d c ] || [ x = y ]", [["[", "-f", "a/b", "]"], ["[", "!", "-d", "c", "]"], ["[", "x", "=",
    "y", "]"]]),
    ("find . ! -name x", [["find", ".", "!", "-name", "x"]]),
    ("grep 'x$' \"y$\"", [["grep", "x$", "y$"]]),
    ("git commit -m 'żółć'", [["git", "commit", "-m", "żółć"]]),
])  # fmt: skip
def test_plain_commands_are_cut_into_words(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@for_each(("text", "why"), [
    ("", "empty"), ("# only", "no command"), ("a\rb", "U+000D"), ("a\0b", "U+0000"), ("a\u00a0b", "U+00A0"),
    ("a\u200bb", "U+200B"), ("a\u202eb", "U+202E"), ("a\x1b[2K", "U+001B"), ("a\u3164b", "U+3164"), ("a\u2800b", "U+2800"),
    ("x" * (MAX_BYTES + 1), "longer"), ("a;" * (MAX_COMMANDS + 1), "more than"), ("a " * (MAX_WORDS + 2), "more than"),
    ("é x", "plain word"), ("l*", "name"), ("a " + "'b'" * 110, "parts"), ("$x", "expansion"), ("A=1", "name"),
    ("A=1 b", "name"), ("a $b", "expansion"), ("a ${b}", "expansion"), ("a $(b)", "expansion"), ("a `b`", "substitution"),
    ("a <(b)", "redirection"), ('a "$b"', '"'), ('a "`b`"', '"'), ("a $'b'", "expansion"), ('a $"b"', "expansion"),
    ("a <<E\nE", "redirection"), ("a <<< b", "redirection"), ("a & b", "background"), ("a |& b", "|"), ("a > b", "redirection"),
    ("a >> b", "redirection"), ("a < b", "redirection"), ("a {b,c}", "braces"), ("a {1..3}", "brace"), ("a ~", "~"),
    ("a ~b", "~"), ("a b=~c", "~"), ("a !b", "!"), ("a [b", "brackets"), ("a [[:x:]]", "brackets"), ("(a; b)", "("),
    ("{ a; }", "brace"), ("! a", "name"), ("f() { a; }", "("), ("if a; then b; fi", "name"), ("[[ a ]]", "brackets"),
    ("((a))", "("), ("then a", "name"), ("coproc a", "name"), ("a 'b", "quote"), ("a2>/dev/null", "redirection"),
    ("a {b}>/dev/null", "redirection"), ("a >/dev/nullx", "redirection"), ("a '' ; '' b", "name"), ("a ;; b", "operator"),
    ("a (b)", "("), ("a | | b", "operator"), ("a &&", "operator"), ("; a", "operator"), ("a\n;b", "operator"),
])  # fmt: skip
def test_everything_else_is_not_understood_and_says_why(text: str, why: str) -> None:
    parsed = parse(text)
    assert parsed.commands == ()
    assert why in parsed.problem
    assert parsed.problem


def test_a_pattern_is_kept_beside_its_word_and_commands_are_found_wherever_they_hide() -> None:
    assert parse("ls '*'a* b? [a-z]c plain").commands[0].globs == ("", r"\*a*", "b?", "?c", "")
    found = {each[0] for each in outline("a $(b `c`) <(d); f() { g; }; if h; then i | j; fi; k <<E\n$(l)\nE\nm '").commands}
    assert found >= set("abcdghijkl")


@given(st.text("ab'\"\\$`*?{}~!#=[]x ", min_size=1, max_size=12))
def test_a_literal_word_is_what_bash_makes_of_it(source: str) -> None:
    try:
        word, end = read_word(source, 0)
    except NotUnderstood:
        return
    if end < len(source):
        return
    if word.pattern or "$?" in source or " " in source.replace("\\ ", "").strip("'\""):
        return
    bash = [shutil.which("bash") or "bash", "--norc", "-c", "f() { printf '%s\\0' \"$@\"; }; f " + source]
    done = subprocess.run(bash, cwd="/", capture_output=True, check=False)
    if done.returncode == 0 and b"\0" in done.stdout and done.stdout.count(b"\0") == 1:
        assert done.stdout.decode()[:-1] == word.text


def test_many_texts_are_parsed_in_several_threads_at_once() -> None:
    def parse_many(number: int) -> int:
        texts = (f'for i in a{number} b{each}; do cat "$i" | wc -l; done; echo $(ls x{each})' for each in range(400))
        return sum(len(outline(text).commands) for text in texts)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(parse_many, range(8))) == [1600] * 8


@pytest.mark.parametrize("text", ["{\U000ccf1a\x85a", ";\U00066b5f)\x00{\U000c392e7\x9b)", "{\x8dE{\U000e433c𭫭#x0"])
def test_no_character_crashes_the_scanner(text: str) -> None:
    assert outline(text).problem


@given(st.text(st.characters(min_codepoint=0xA1, exclude_categories=("Cs", "Zs", "Zl", "Zp", "Cc")), min_size=1, max_size=20))
def test_words_beyond_ascii_come_back_as_they_were_written(word: str) -> None:
    assert outline(f"echo {word} > {word}").commands == (("echo", word),)
    assert outline(f"echo {word} > {word}").targets == (word,)


CORPUS = Path(__file__).parent / "corpus"
BYPASSES = [json.loads(line) for line in (CORPUS / "approval_bypasses.jsonl").read_text().splitlines()]
MOST_ASKED_NEEDLESSLY = 0.02


def lines(name: str) -> list[str]:
    return [line for line in (CORPUS / name).read_text().splitlines() if line and not line.startswith("# ")]


@lru_cache(maxsize=1)
def usual_rules() -> tuple[Rule, ...]:
    return tuple(parse_rule(text, Effect.ALLOW, "settings") for text in lines("rules.txt"))


def decided(command: str, rules: tuple[Rule, ...], mode: Mode = Mode.NORMAL) -> Decision:
    return decide("shell", Access.EXECUTE, command, mode, rules, is_read_only=True)


@for_each("case", BYPASSES)
def test_a_bypass_asks_or_runs_where_it_can_change_nothing(case: dict[str, str | list[str]]) -> None:
    rules = tuple(parse_rule(f"Shell({text})", Effect.ALLOW, "settings") for text in case["allow"])
    found = decided(str(case["command"]), rules)
    assert found.verdict is Verdict.ASK or found.is_read_only
    assert decided(str(case["command"]), rules, Mode.MANUAL).verdict is Verdict.ASK
    assert decide("shell", Access.EXECUTE, str(case["command"]), Mode.NORMAL, rules).verdict is Verdict.ASK


def test_ordinary_and_harmless_commands_are_hardly_asked_about() -> None:
    commands = lines("ordinary_commands.txt")
    asked = [command for command in commands if decided(command, usual_rules()).verdict is not Verdict.ALLOW]
    assert len(asked) <= MOST_ASKED_NEEDLESSLY * len(commands), asked
    commands = lines("harmless_commands.txt")
    assert len(commands) >= 185
    assert len([command for command in commands if decided(command, ()).verdict is not Verdict.ALLOW]) <= 4
    assert all(decided(command, ()).is_read_only for command in commands if decided(command, ()).verdict is Verdict.ALLOW)


@for_each("command", lines("asked_commands.txt"))
def test_what_deserves_a_question_asks_where_it_would_run_on_the_files(command: str) -> None:
    assert decide("shell", Access.EXECUTE, command, Mode.NORMAL, usual_rules()).verdict is Verdict.ASK
