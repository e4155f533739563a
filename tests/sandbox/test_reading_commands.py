"""What passes without a question because it only reads is really run, over a hostile folder: it changes and shows nothing."""

from __future__ import annotations

import base64
import json
import os
import random
import re
from pathlib import Path

import pytest

from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import Access, Decision, Effect, Mode, Rule, Verdict, mask_expressions, parse_rule
from lmtui.core.ports import Sandbox
from tests.sandbox.conftest import ISOLATED, OpenSandbox, fill, git
from tests.sets import depth

CASES = Path(__file__).parent / "cases" / "reading_tricks.txt"
BYPASSES = Path(__file__).parents[1] / "core" / "corpus" / "approval_bypasses.jsonl"
GENERATED, SEED, BATCH = 1000, 20_260_301, 80
EVERY_TRICK = "LMTUI_EFFECT_RUNS" in os.environ
MARK = "hunter2Zebra"
RULES = (parse_rule("Read(./secrets/)", Effect.DENY, "settings"), parse_rule("Read({vault,keys}/**)", Effect.DENY, "settings"))
# Of a batch each command runs by itself; its output is looked through inside, so that nothing of it is cut off before.
RUNNER = """
ma=hunter2; mb=Zebra; mark="$ma$mb"
hex=$(printf %s "$mark" | od -An -tx1 | tr -d " \\n"); sixtyfour=$(printf %s "$mark" | base64 | cut -c1-12)
back=$(printf %s "$mark" | rev)
n=0
while IFS= read -r line; do
  n=$((n + 1))
  command=$(printf %s "$line" | base64 -d)
  timeout -k 1 3 bash -c "$command" > /tmp/.out 2>&1 < /dev/null
  tr -d ' \\n' < /tmp/.out > /tmp/.flat
  for piece in "$mark" "$hex" "$sixtyfour" "$back"; do
    if [ -n "$piece" ] && grep -qaiF -e "$piece" /tmp/.out /tmp/.flat; then echo "SHOWN $n"; fi
  done
done <<'LINES'
"""
HOSTILE = {
    "README.md": "hello\nworld\n", "opts": "--plugin=/workspace/evil.so\n", "evil.so": "\x7fELF", "a.db": "",
    "evil.sh": "#!/bin/sh\ntouch /workspace/pwned\ncat /workspace/.env /workspace/secrets/k\n", "evil.sed": "w pwned\nr .env\n",
    "evil.awk": 'BEGIN { system("touch pwned; cat .env") }\n', "ls": "#!/bin/sh\ntouch /workspace/pwned\n",
    "conftest.py": "open('pwned', 'w').write('x')\nprint(open('.env').read())\n",
    "json.py": "open('/workspace/pwned', 'w')\n", "sitecustomize.py": "open('/workspace/pwned', 'w')\n",
    "package.json": '{"scripts": {"test": "touch pwned", "prepare": "./evil.sh"}}', ".yarnrc.yml": "yarnPath: ./evil.sh\n",
    ".envrc": "export A=b\n", "toxfile.py": "open('pwned', 'w')\n", "rust-toolchain.toml": '[toolchain]\npath = "/workspace"\n',
    "Makefile": "X := $(shell touch pwned; cat .env)\nall:\n\ttouch pwned\n", ".mvn/jvm.config": "-javaagent:evil.jar\n",
    ".env": f"TOKEN={MARK}\n", "secrets/k": f"key {MARK}\n", "secrets/deep/er": MARK, "keys/server.pem": MARK,
    "vault/x.txt": MARK,
    "sub/.env.local": f"TOKEN={MARK}\n", "id_rsa": MARK, "config/credentials.json": json.dumps({"key": MARK}),
    "evil.xml": '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///workspace/.env">]><a>&x;</a>', "x.py": "import os\n",
}  # fmt: skip
GIT_CONFIG = """
[core]\n\tfsmonitor = ./evil.sh\n\tpager = ./evil.sh\n\thooksPath = .\n\teditor = ./evil.sh
[diff]\n\texternal = ./evil.sh\n[diff "d"]\n\ttextconv = ./evil.sh\n\tcommand = ./evil.sh
[filter "f"]\n\tclean = ./evil.sh\n\tsmudge = ./evil.sh\n\tprocess = ./evil.sh\n\trequired = true
[alias]\n\tst = !touch pwned\n\tlogx = !./evil.sh\n[gpg]\n\tprogram = ./evil.sh\n[log]\n\tshowSignature = true
[interactive]\n\tdiffFilter = ./evil.sh\n[pager]\n\tlog = ./evil.sh\n\tstatus = ./evil.sh
"""


@pytest.fixture
def hostile(workspace: Path) -> Path:
    for folder in (workspace, workspace / "vendor" / "nested"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "README.md").write_text("hello\n")
        git(folder, "init", "-q")
        git(folder, "add", "README.md")
        git(folder, "commit", "-qm", "first")
        with (folder / ".git" / "config").open("a") as file:
            file.write(GIT_CONFIG)
        (folder / ".gitattributes").write_text("* filter=f diff=d\n")
        (folder / ".gitignore").write_text(".env*\nsecrets\nvault\nkeys\nid_rsa\ncredentials.json\n")
    fill(workspace, HOSTILE)
    for name, text in HOSTILE.items():
        (workspace / name).chmod(0o755 if text.startswith("#!") else 0o644)
    (workspace / ".link").symlink_to(".env")
    return workspace


def tree(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (state.st_mode, content)
    return found


def decided(command: str, rules: tuple[Rule, ...], *, masks_git: bool) -> Decision:
    return decide("shell", Access.EXECUTE, command, Mode.NORMAL, rules, is_read_only=True, masks_git=masks_git)


def tricks() -> list[str]:
    """Return the hand-written ones, and those that once got around a rule."""
    lines = [line for line in CASES.read_text().splitlines() if not line.startswith("# ")]
    old = [json.loads(line)["command"] for line in BYPASSES.read_text().splitlines()]
    return [*(line.replace("⏎", "\n") for line in lines), *(command for command in old if len(command) < 1000)]


READERS = (
    "cat", "head -5", "tail -n +1", "grep -rn TOKEN", "grep -c ''", "rg -uuu T", "wc", "sort", "uniq", "nl", "tac", "rev",
    "od -c",
    "xxd", "base64", "strings", "cut -c1-", "fold", "paste", "comm README.md", "diff README.md", "diff -r src",
    "cmp -l README.md",
    "jq -Rs .", "awk 1", "sed -n p", "sed 's/a/b/w pwned'", "sed '1e touch pwned'", "find", "tar tf",
    "git diff --no-index README.md",
    "git log -p --", "git show", "git blame", "git grep -n '' --", "git status", "ls -laR", "stat", "file", "tree -a",
    "du -a", "md5sum",
    "less", "more", "hexdump -C", "iconv -t utf16", "column", "join README.md", "fmt", "pr", "tr a b <", "xargs -a",
    "python -m json.tool",
    "openssl dgst", "zcat -f", "shuf", "expand", "awk 'BEGIN{system(\"touch pwned\")}'", "sort -o", "xxd -r", "tee",
    "cp README.md",
)  # fmt: skip
TARGETS = (
    ".env", "./.env", "../workspace/.env", "/workspace/.env", "/proc/self/cwd/.env", ".e*", ".en?", ".[e]nv",
    "sub/.env.local", "id_rsa",
    "secrets/k", "secrets/*", "sec*/*", "secrets", "./secrets/deep", "keys/server.pem", "k*/*.pem", "vault/x.txt",
    "config/*.json", ".link",
    ".", "*", "README.md", "HEAD", "HEAD:README.md", "$(ls -a)", '"$x"', "src/../.env",
    "/proc/self/root/workspace/secrets/k", "@opts",
)  # fmt: skip
AROUND = (
    "{}", "{} | cat", "{} 2>&1 | base64", "{} | rev", "{} | xxd -p", "cat <({})", 'echo "$({})"', "for f in 1 2; do {}; done",
    "x=.env; {}", "cd src && cd .. && {}", "cd secrets; {}", "find . -type f -exec {} {{}} +", "ls -a | xargs {}", "{} < .env",
    "{} < secrets/k", "{} > /tmp/o; cat /tmp/o", "{} > pwned", "if {}; then ls; fi", "cat <<E\n$({})\nE", "({})", "time {}",
    "! {}",
    "timeout 2 {}", "{} || touch pwned", "while read -r x; do {}; done < .env", "{} | tee /tmp/a > /dev/null",
    "set -o keyword; {} PATH=.",
)  # fmt: skip


def generated() -> list[str]:
    rng = random.Random(SEED)
    found: dict[str, None] = {}
    while len(found) < GENERATED:
        inner = f"{rng.choice(READERS)} {rng.choice(TARGETS)}"
        text = rng.choice(AROUND).format(inner)
        found[text if rng.random() < 0.7 else f"{text}; {rng.choice(READERS)} {rng.choice(TARGETS)}"] = None
    return list(found)


async def shown_by(sandbox: Sandbox, commands: list[str]) -> list[str]:
    """Run commands one by one and return those whose output has a hidden file's content in it."""
    lines = "".join(base64.b64encode(command.encode()).decode() + "\n" for command in commands)
    result = await sandbox.run_command(f"{RUNNER}{lines}LINES\necho END", timeout_s=300)
    assert result.output.rstrip().endswith("END"), result.output[-500:]
    return [commands[int(number) - 1] for number in re.findall(r"^SHOWN (\d+)$", result.output, re.MULTILINE)]


@pytest.mark.parametrize("place", [pytest.param("read-only", marks=pytest.mark.full), "overlay"])
@pytest.mark.parametrize("backend", ISOLATED)
async def test_what_runs_unasked_changes_nothing_and_shows_nothing_hidden(
    backend: str, place: str, hostile: Path, open_sandbox: OpenSandbox
) -> None:
    sandbox = await open_sandbox(backend)
    sandbox.mask(1, mask_expressions(RULES))
    status = await sandbox.status()
    assert status.has_read_only
    open_ones = ["cat README.md", *(f"echo hunter2Zebra{way}" for way in ("", " | rev", " | od -An -tx1 | tr -d ' \\n'"))]
    assert await shown_by(sandbox.read_only(), open_ones) == open_ones[1:], "the judge sees what is shown"
    assert len(tricks()) >= 200
    commands = [*tricks(), *generated()][:: depth(8, 1)]
    allowed = []
    for command in commands:
        found = decided(command, RULES, masks_git=status.masks_git)
        assert found.verdict is not Verdict.ALLOW or found.is_read_only, command
        allowed += [command] if found.verdict is Verdict.ALLOW else []
    assert len(allowed) > len(commands) // 4, "too few commands pass"
    every = 1 if EVERY_TRICK else depth(5, 8 if place == "overlay" else 4 if backend == "docker" else 2)
    allowed = allowed[::every]
    before = tree(hostile)
    changed = 0
    for at in range(0, len(allowed), BATCH):
        batch = allowed[at : at + BATCH]
        overlay = sandbox.overlay() if place == "overlay" else None
        assert not await shown_by(overlay.sandbox if overlay else sandbox.read_only(), batch)
        if overlay is not None:
            changed += len((await overlay.effect()).paths)
            await overlay.close()
        after = tree(hostile)
        assert after == before, (sorted(set(after) ^ set(before)), batch)
    assert changed or place == "read-only", "the tricks change something there"
