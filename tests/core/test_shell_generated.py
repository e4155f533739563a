"""Thousands of generated command lines: what was allowed is run by a real bash whose programs only write down their words.

The judge knows nothing of the code under test: bash cuts the text, the stubs record what was started, and a short list says
what an allowed line may start, and with which words not.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import Access, Effect, Mode, Verdict, parse_rule
from tests.sets import depth, for_each

COMMANDS = depth(1_500, 10_000)
SEED = 20_260_101
RULES = (
    "git log*", "git status", "git commit *", "npm test *", "pytest *", "make test", "python tool.py *", "tar *", "find *",
    "sed *", "awk *", "sort *", "rg *", "uniq *", "diff *", "env", "test *",
)  # fmt: skip
FINE = (
    "ls -la src", "cat README.md", "git status", "git log --oneline -3", "echo hello", "grep -rn foo src", "wc -l a.py",
    "pytest -q", "npm test", "make test", "find . -name x", "sed -n 1,5p f", "awk '{print $1}' f", "sort f", "head -3 f",
    "python tool.py a", "git commit -m 'a b'", "timeout 5 pytest", "xargs wc -l", "tar tf a.tar", "git diff HEAD~1",
    "cut -d, -f1 f", "rg foo src", "time ls", "nice -n 5 pytest", "uniq f", "diff a b", "ls *.py", 'grep "a b$" f',
    "echo 'it''s'", "test -f a", "env",
)  # fmt: skip
HOSTILE = (
    "touch x", "rm -rf src", "evil", "./evil", "/bin/evil", "sh -c evil", "bash -c 'evil'", "python -c evil", "evil a b",
    "sudo ls", "find . -exec evil {} ;", "find . -delete", "git -c a=b log", "git log --output=x", "sed -n '1e evil' f",
    "sed 's/a/b/e' f", "awk 'BEGIN{system(\"evil\")}'", "tar cf a . --to-command=evil", "sort -o x f", "rg --pre evil x",
    "xargs evil", "env A=b ls", "A=b ls", "pytest -p evil", "git push", "npm publish", "eval evil", "exec evil", ". ./evil",
    "uniq a b", "tee x", "node -e evil", "git x", "python -m evil", "printf -v a b", "command evil", "timeout 5 evil",
    "nohup evil", "cat .env", "less f", "time evil",
)  # fmt: skip
GLUE = (
    "; ", " && ", " || ", " | ", "\n", " & ", "&", ";", "|", "&&", " |& ", "\r", "\t;\t", " \\\n", " \\\n; ", " #\n",
    " # a\\\n", "\n\n",
    ";;", " ;\n", "\u00a0", "\x0b", " ! ", "; ! ", "\\\n&&", "\\;", " '' ", '"; "', "';'", "\\\\\n", "\u2028", "; time ",
    "\n# c\n",
)  # fmt: skip
AROUND = (
    "{}", "({})", "{{ {}; }}", "! {}", "$({})", "`{}`", '"$({})"', "echo $({})", "echo `{}`", "cat <({})", "if {}; then ls; fi",
    "{} > out", "{} 2>/dev/null", "{} >/dev/null 2>&1", "{} </dev/null", "cat <<E\n{}\nE", "cat <<'E'\n{}\nE", "echo '{}'",
    'echo "{}"', "time {}", "f() {{ {}; }}; f", "for i in a; do {}; done", "echo {{{},a}}", "cat <<< '{}'", "{} #", "#{}",
    "echo \\{}", "{}\\", "x={}", "'{}'", "echo a'{}'b", "nice {}", "timeout 5 {}", "command {}", "echo ${{x:-{}}}",
    "echo $'{}'", "[ -n a ] && {}", "[[ -n a ]] && {}", "{} &", "case a in a) {};; esac", "coproc {}", "echo $(( {} ))",
    "{}>/dev/null", "{}>x", "2>/dev/null {}", "alias ls='{}'; ls", "{}\\ x",
)  # fmt: skip
NOISE = ("'", '"', "\\", "$", "`", " ", "\n", ";", "#", "{", "}", "(", ")", "*", "!", "~", "<", ">", "&", "=", "|", "\t", "[")
FINE_PROGRAMS = frozenset(
    {"ls", "cat", "git", "echo", "grep", "wc", "pytest", "npm", "make", "find", "sed", "awk", "sort", "head", "python",
    "xargs",
     "timeout", "tar", "cut", "rg", "nice", "uniq", "diff", "env", "test", "time", "printf"}
)  # fmt: skip
OTHER_PROGRAMS = frozenset({"touch", "rm", "evil", "sh", "bash", "sudo", "tee", "less", "node", "nohup"})
BANNED_WORDS = {
    "find": r"-(?:exec|ok|delete|fprint|fls)", "git": r"--output", "rg": r"--pre", "sort": r"-o", "env": r".*=",
    "npm": "publish",
    "tar": r"--to-command|--checkpoint-action|-I", "awk": r".*system", "pytest": r"-p", "cat": r"(?:.*/)?\.env\Z",
    "printf": r"-v",
    "sed": r"\d*e\b|s/a/b/e",
}  # fmt: skip
BANNED_FIRST_WORDS = {"git": r"-c|push\Z|x\Z|-C", "python": r"-c|-m|-\Z|evil"}


DRESSED = (
    "evil x", "ev''il x", 'e"v"il x', "\\evil x", "e\\vil x", "$'\\x65vil' x", "$'\\145vil' x", "ev\\\nil x", "./evil x",
    "a=evil; $a x", "$(printf %s evil) x", "`echo evil` x", "A=1 evil x", "A=1 B='2 3' ./evil x", "eval evil x",
    "eval 'e'vil x", "eval $'evi\\154'", "command evil x", "command -p ./evil x", "exec evil x", "builtin command evil x",
    "{ evil; }", "(evil)", "f() { evil; }; f", "! evil", "time -p evil", "coproc evil; wait", "trap evil EXIT",
    "if evil; then :; fi", "while evil; do break; done", "for i in evil; do $i; done", "case $(evil) in a) :;; esac",
    ": ${x:=$(evil)}", ": $((1 + $(evil)))", "x=$(evil)", "export x=`evil`", ": <(evil)", "cat <<E\n$(evil)\nE",
    "cat <<< $(evil)", "printf -v 'a[$(evil)]' x", "test -v 'a[$(evil)]'", "let 'a[$(evil)]=1'", "mapfile -C evil -c 1 a <<< x",
    "./e?il x", "./evi[l] x", "./*vil x", "e{vil,} x", "evil>/dev/null", "2>&1 evil", ">/dev/null evil",
    "a=(e vil); ${a[0]}${a[1]}", "x=evi; ${x}l", "source /dev/stdin <<< evil", ". /dev/fd/0 <<< evil",
    "echo evil | . /dev/stdin", "shopt -s expand_aliases\nalias z=evil\nz", "enable -n echo; evil", "evil&",
    "true && evil || evil", "select i in a; do evil; done <<< 1", "[[ -n $(evil) ]]", "unset 'a[$(evil)]'",
    "set -- evil; \"$@\"", "set evil; $1", "PS4='$(evil)'; set -x; :", "x='$(evil)'; : \"${x@P}\"", "read a <<< evil; $a",
    "hash -p ./evil zz; zz", "${0/*/evil}",
)  # fmt: skip


def generate(rng: random.Random) -> str:
    pieces = [rng.choice(FINE) for _ in range(rng.randint(1, 3))]
    for _ in range(rng.randint(0, 2)):
        pieces.insert(rng.randint(0, len(pieces)), rng.choice(HOSTILE))
    text = pieces[0]
    for piece in pieces[1:]:
        text += rng.choice(GLUE) + piece
    if rng.random() < 0.5:
        text = rng.choice(AROUND).format(text)
    if rng.random() < 0.3:
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(NOISE) + text[at:]
    if rng.random() < 0.1:
        at = rng.randint(0, len(text))
        text = text[:at] + text[at + 1 :]
    return text


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    recorder = folder / "recorder"
    recorder.write_text(f"""#!{shutil.which("bash")}\nprintf '%s\\0' "${{0##*/}}" "$@" $'\\n' >> "$RECORD/$$"\n""")
    recorder.chmod(0o755)
    for name in FINE_PROGRAMS | OTHER_PROGRAMS:
        (folder / name).symlink_to(recorder)
    work = tmp_path / "work"
    work.mkdir()
    for name in ("a.py", "evil", "x"):
        (work / name).symlink_to(recorder)
    return folder


def started_by(text: str, stubs: Path) -> list[list[str]]:
    """Return the words of every program that bash starts for a text.  Builtins that could hide one are switched off."""
    record = stubs.parent / "record"
    shutil.rmtree(record, ignore_errors=True)
    record.mkdir()
    off = "enable -n echo test printf [ ; "
    run = [shutil.which("bash") or "bash", "--norc", "--noprofile", "-c", off + "\n" + text]
    subprocess.run(
        run, cwd=stubs.parent / "work", env={"PATH": str(stubs), "RECORD": str(record)}, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    calls = [call for file in record.iterdir() for call in file.read_bytes().decode("utf-8", "replace").split("\n\0")]
    return [call.split("\0")[:-1] for call in calls if call]


def complaint(call: list[str]) -> str:
    program, words = call[0], call[1:]
    if program not in FINE_PROGRAMS:
        return f"started {program}"
    if program in ("timeout", "nice", "xargs", "env") and not any("=" in word for word in words):
        inner = next((word for word in words if not re.match(r"-|\d+\Z", word)), "ls")
        return "" if inner in FINE_PROGRAMS else f"started {call}"
    nothing = r"(?!)"
    is_banned = any(re.match(BANNED_WORDS.get(program, nothing), word) for word in words)
    is_banned = is_banned or any(re.match(BANNED_FIRST_WORDS.get(program, nothing), word) for word in words[:1])
    return f"started {call}" if is_banned else ""


def test_no_generated_command_is_wrongly_allowed_by_a_judge_that_sees_what_bash_starts(stubs: Path) -> None:
    for text in ("ls; evil a", "echo $(evil)", "ls\nevil", "cat <(evil)", "'ev'il", "time evil", "./evil", "ls & evil; wait"):
        assert any(complaint(call) for call in started_by(text, stubs)), text
    assert not any(complaint(call) for call in started_by("ls -la && git log --oneline | head -3", stubs))
    rng = random.Random(SEED)
    rules = tuple(parse_rule(f"Shell({text})", Effect.ALLOW, "settings") for text in RULES)
    texts = [generate(rng) for _ in range(COMMANDS)]
    allowed = list(
        dict.fromkeys(t for t in texts if decide("shell", Access.EXECUTE, t, Mode.NORMAL, rules).verdict is Verdict.ALLOW)
    )
    assert len(allowed) > COMMANDS // 20, "the generator makes too few commands that pass"
    before = set((stubs.parent / "work").iterdir())
    wrong = [(text, found) for text in allowed for call in started_by(text, stubs) if (found := complaint(call))]
    assert not wrong
    assert set((stubs.parent / "work").iterdir()) == before, "an allowed command made a file"


@for_each("text", DRESSED)
def test_what_is_forbidden_is_not_started_in_any_dress(text: str) -> None:
    rules = (parse_rule("Shell(evil *)", Effect.DENY, "settings"), parse_rule("Shell", Effect.ALLOW, "settings"))
    for form in (text, f"ls && {text}", f"{text} | head -3"):
        assert decide("shell", Access.EXECUTE, form, Mode.AUTO, rules).verdict is not Verdict.ALLOW


def test_what_is_forbidden_is_not_started_by_generated_commands(stubs: Path) -> None:
    rng = random.Random(SEED)
    rules = (parse_rule("Shell(evil *)", Effect.DENY, "settings"),)
    texts: list[str] = []
    while len(texts) < COMMANDS // 5:
        text = generate(rng)
        for word in ("evil", "touch", "tee"):
            text = text.replace(
                word, rng.choice(("ls", "ev''il", "$x", "e\\vil", "$'\\x65vil'", "l\\s", "'ls'")), rng.randint(0, 1)
            )
        texts.append(text)
    passed = [text for text in texts if decide("shell", Access.EXECUTE, text, Mode.AUTO, rules).verdict is Verdict.ALLOW]
    assert len(passed) > len(texts) // 5
    assert not [text for text in passed if any(call[0] == "evil" for call in started_by(text, stubs))]
