"""Overlays: commands change nothing real, what they did is told exactly, and what is kept is made exactly."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.permissions.rules import Effect, parse_rule
from lmtui.core.workspace import CommandEffect, FileChangeKind
from lmtui.paths import kept_dir, patches_dir
from lmtui.sandbox import overlays, replies
from lmtui.sandbox.host_paths import store_folder
from lmtui.sandbox.overlays import WorkspaceOverlay
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import ISOLATED, LIMITS, OpenSandbox, fill
from tests.sandbox.test_checkpoints import tree_of
from tests.sets import depth, few

pytestmark = pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)


Tried = Callable[..., Awaitable[tuple[WorkspaceOverlay[WorkspaceSandbox], CommandEffect]]]


@pytest.fixture
async def tried(sandbox: WorkspaceSandbox) -> AsyncIterator[Tried]:
    """Return what runs a command in an overlay, which is closed at the end, and looks at its effect."""
    opened: list[WorkspaceOverlay[WorkspaceSandbox]] = []

    async def run(command: str) -> tuple[WorkspaceOverlay[WorkspaceSandbox], CommandEffect]:
        opened.append(sandbox.overlay())
        await opened[-1].sandbox.run_command(command)
        return opened[-1], await opened[-1].effect()

    yield run
    for overlay in opened:
        await overlay.close()


async def restarted(sandbox: WorkspaceSandbox, folder: Path) -> str:
    """Return what the next start says of an overlay whose process was killed."""
    gone = folder.with_name("dead")
    folder.rename(gone)
    adopt = partial(sandbox.overlay, stays=True)
    told = await overlays.finish_interrupted(sandbox._pool.workspace, sandbox, sandbox._states, adopt)
    assert not gone.exists()
    return told


def kinds(effect: CommandEffect) -> dict[str, str]:
    return {change.path: str(change.kind) for change in effect.changes}


def units(effect: CommandEffect, *paths: str) -> list[int]:
    """Return the units of whole parts."""
    numbers = itertools.count()
    return [number for part in effect.parts for number in (next(numbers) for _ in range(part.hunks)) if part.path in paths]


async def test_what_no_state_holds_is_named_and_stays(tried: Tried, workspace: Path) -> None:
    fill(workspace, {"large": bytes(17 << 20), "changed": bytes(17 << 20)})
    touched = "rm large; echo 1 > changed; touch git~1; ln -s x .gitmodules; mkdir d; echo x > d/.lmagent"
    overlay, effect = await tried(
        f"{touched}; mkfifo pipe; mkdir sub; git init -q sub; truncate -s 200M sparse; printf x > 'a\nb'"
    )
    assert set(effect.special) == {"pipe", "sub/.git/", "sparse", "large", "changed", "git~1", ".gitmodules", "d/.lmagent"}
    assert kinds(effect) == {"a\nb": "added"}
    await overlay.keep(effect, None, ())
    assert (workspace / "a\nb").read_text() == "x"
    assert (workspace / "large").stat().st_size == (workspace / "changed").stat().st_size == 17 << 20


def numbered(**others: str) -> str:
    return "".join(f"{others.get(f'l{number}', f'line {number}')}\n" for number in range(1, 31))


@pytest.mark.full
async def test_a_cancel_while_its_supervisor_starts_leaves_no_process(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    (workspace / "a.txt").write_text("a\n")
    overlay = sandbox.overlay(stays=True)
    try:
        await overlay.sandbox.run_command("echo b >> a.txt")
        await overlay.effect()
        before = children()
        for delay_s in (0.002, 0.02, 0.06, 0.1):
            looking = asyncio.create_task(overlay.effect())
            await asyncio.sleep(delay_s)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            assert children() <= before, delay_s
    finally:
        await overlay.close()


def children() -> set[str]:
    """Return the processes that this one started and that are there."""
    return {pid for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()}


async def test_single_hunks_are_kept_and_what_was_there_before_too(
    sandbox: WorkspaceSandbox, tried: Tried, workspace: Path
) -> None:
    fill(workspace, {"a": numbered(), "old": "x\n" * 9})
    overlay, effect = await tried("sed -i 's/^line 2$/two/; s/^line 15$/fifteen/; s/^line 30$/thirty/' a; mv old moved")
    assert [(part.path, str(part.kind), part.hunks, part.source) for part in effect.parts] == [
        ("a", "changed", 3, ""),
        ("moved", "renamed", 1, "old"),
    ]
    kept = await overlay.keep(effect, [0, 2], ())
    assert (workspace / "a").read_text() == numbered(l2="two", l30="thirty")
    assert kept.before is not None
    assert await sandbox.checkpoints.read(kept.before.id, "a") == numbered().encode()
    assert ((workspace / "old").exists(), (workspace / "moved").exists()) == (True, False)
    left = await overlay.effect()
    assert [(part.path, part.hunks) for part in left.parts] == [("a", 1), ("moved", 1)]
    await overlay.keep(left, [1], ())
    assert ((workspace / "old").exists(), (workspace / "moved").exists()) == (False, True)


async def test_what_was_half_kept_when_lmtui_was_killed_is_kept_at_the_next_start(
    sandbox: WorkspaceSandbox, tried: Tried, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "old").write_text("1\n")
    overlay, effect = await tried("echo 2 > a; echo 3 > b; rm old; mkdir e")

    async def killed(*_: object) -> None:
        (workspace / "a").write_text("2\n")  # as far as it came
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(overlays, "_keep", killed)
        with pytest.raises(RuntimeError, match="killed"):
            await overlay.keep(effect, None, ())
    told = await restarted(sandbox, overlay._folder)
    assert "the rest is kept now" in told
    assert ((workspace / "a").read_text(), (workspace / "b").read_text()) == ("2\n", "3\n")
    assert ((workspace / "e").is_dir(), (workspace / "old").exists()) == (True, False)


async def test_what_a_killed_session_had_not_merged_is_a_patch_at_the_next_start(
    sandbox: WorkspaceSandbox, workspace: Path
) -> None:
    (workspace / "a").write_text("1\n")
    overlay = sandbox.overlay(stays=True)
    overlay.outlive_kill("../the-session")
    await overlay.sandbox.run_command("echo 2 > a; echo new > b; echo kept > c")
    effect = await overlay.effect()
    await overlay.keep(effect, units(effect, "c"), ())
    await overlay.refresh()
    told = await restarted(sandbox, overlay._folder)
    patch = patches_dir(workspace) / "the-session.patch"
    assert str(patch) in told
    assert (workspace / "a").read_text() == "1\n"
    subprocess.run(["git", "apply", str(patch)], cwd=workspace, check=True, env={"GIT_DIR": "/nonexistent"})
    assert ((workspace / "a").read_text(), (workspace / "b").read_text()) == ("2\n", "new\n")


@pytest.mark.full
async def test_an_overlay_goes_whatever_was_made_in_it(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    (workspace / "mine").write_text("1\n")
    overlay = sandbox.overlay()
    await overlay.sandbox.run_command("mkdir -p a/b; echo 1 > a/b/c; ln -s ../../mine a/link; ln -s / root; chmod 000 a/b a")
    await overlay.close()
    assert not overlay._folder.exists()
    assert (workspace / "mine").read_text() == "1\n"


async def test_a_whole_session_happens_in_it(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    await sandbox.run_command("true")
    overlay = sandbox.overlay(stays=True)
    inside = overlay.sandbox.for_session()
    await inside.write_file("new/b.txt", b"needle\n")
    await inside.run_command("echo two >> a.txt; echo kept > /tmp/note")
    assert (await inside.read_file("a.txt")).data == b"one\ntwo\n"
    assert (await inside.run_command("cat /tmp/note new/b.txt")).output == "kept\nneedle\n"
    assert [match.path for match in await inside.grep("needle")] == ["new/b.txt"]
    assert list(await inside.glob("**/b.txt")) == ["new/b.txt"]
    assert "new" in [entry.path for entry in await inside.list_directory()]
    looked = await inside.read_only().run_command("cat a.txt; echo x > c.txt")
    assert looked.output.startswith("one\ntwo\n")
    assert looked.exit_code != 0
    (workspace / ".env").write_text("KEY=hidden\n")  # masked also where it comes later
    tried_all = await inside.run_command("cat .e*; mkdir -p .git/hooks && echo x > .git/hooks/pre-commit; echo x > .lmagent/x")
    assert "hidden" not in tried_all.output
    assert (await inside.revealing([".env"]).read_file("a.txt")).data == b"one\ntwo\n"
    assert (await inside.unmasked().read_file("new/b.txt")).data == b"needle\n"
    assert kinds(await overlay.effect()) == {"a.txt": "modified", "new/b.txt": "added"}
    await overlay.close()
    assert ((workspace / "a.txt").read_text(), (workspace / "new").exists()) == ("one\n", False)
    assert not (workspace / ".lmagent" / "x").exists()


async def test_git_reads_what_is_in_it_and_writes_nothing(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    for arguments in (["init", "-q"], ["add", "README.md"], ["commit", "-q", "-m", "first"]):
        assert (await sandbox.run_git(arguments, writes=True)).exit_code == 0
    overlay = sandbox.overlay(stays=True)
    await overlay.sandbox.run_command("echo more >> README.md")
    assert " M README.md" in (await overlay.sandbox.run_git(["status", "--porcelain"])).output
    assert " M README.md" not in (await sandbox.run_git(["status", "--porcelain"])).output
    with pytest.raises(SandboxError, match="not in an overlay"):
        await overlay.sandbox.run_git(["add", "README.md"], writes=True)
    with pytest.raises(SandboxError, match="not in an overlay"):
        await overlay.sandbox.background.start("sleep 9")
    with pytest.raises(SandboxError, match="not in an overlay"):
        await overlay.sandbox.run_command("true", with_packages=True)
    await overlay.close()


async def test_its_states_tell_what_each_step_changed(
    sandbox: WorkspaceSandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(workspace, {"a.txt": "one\n", "b.txt": "b\n"})
    looks: list[str] = []
    looked = overlays._looked

    async def counted(instances: overlays.OverlayInstances, base: str = "") -> replies.EffectReply:
        looks.append(base)
        return await looked(instances, base)

    monkeypatch.setattr(overlays, "_looked", counted)
    overlay = sandbox.overlay(stays=True)
    states = overlay.sandbox.checkpoints
    first = await states.snapshot()
    _ = await overlay.sandbox.read_file("a.txt")
    assert (await states.snapshot(), len(looks)) == (first, 1)  # nothing may have written since
    await overlay.sandbox.run_command("echo two >> a.txt")
    second = await states.snapshot()
    running = asyncio.create_task(overlay.sandbox.run_command("rm b.txt; >c.txt; until [ -e d ]; do :; done; echo d >d"))
    while not await overlay.sandbox.glob("c.txt"):
        await asyncio.sleep(0.05)
    third = await states.snapshot()
    await asyncio.gather(overlay.sandbox.write_file("d", b""), running)
    assert len({first.id, second.id, third.id, (await states.snapshot()).id}) == 4
    assert [(each.path, each.added_lines) for each in await states.changes(first.id, second.id, is_now=True)] == [("a.txt", 1)]
    changed = {each.path: str(each.kind) for each in await states.changes(second.id, third.id)}
    assert changed == {"b.txt": "deleted", "c.txt": "added"}
    assert await states.read(second.id, "b.txt") == b"b\n"
    with pytest.raises(SandboxError, match="drop the overlay's changes"):
        await states.restore(first.id, ["a.txt"], expected=third.id)
    await overlay.close()


@pytest.mark.full
async def test_a_lock_that_a_killed_git_left_holds_nothing_up(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    await sandbox.checkpoints.snapshot()
    (store_folder(workspace) / "lmtui.effect.index.lock").touch()
    overlay = sandbox.overlay()
    await overlay.sandbox.run_command("echo 1 > a")
    assert kinds(await overlay.effect()) == {"a": "added"}
    await overlay.close()


@pytest.mark.full
async def test_a_command_that_fills_the_disk_is_stopped(sandbox: WorkspaceSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter((1 << 40, 1 << 40))
    monkeypatch.setattr(overlays, "free_bytes", lambda _: next(left, 0))
    overlay = sandbox.overlay()
    with pytest.raises(SandboxError, match="less than 1 GB is left on the disk"):
        await overlay.sandbox.run_command("sleep 20")
    await overlay.close()


async def test_commands_that_may_reach_hosts_are_not_tried_unasked(
    open_sandbox: OpenSandbox, sandbox: WorkspaceSandbox
) -> None:
    assert (await sandbox.status()).has_overlays
    reaching = await open_sandbox((await sandbox.status()).backend, network="proxy", limits=LIMITS)
    assert not (await reaching.status()).has_overlays


async def test_an_overlay_shows_the_workspace_of_now(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    (workspace / "d").mkdir()
    for name in ("d/changed", "d/gone", "kept"):
        (workspace / name).write_text("before\n")
    first = sandbox.overlay()
    await first.sandbox.run_command("cat kept")
    await first.close()
    (workspace / "d/changed").write_text("after\n")
    (workspace / "d/gone").unlink()
    fill(workspace, {"d/new": "new\n", "e/x": "x\n", ".env": "TOKEN=1\n"})
    second = sandbox.overlay()
    ran = await second.sandbox.run_command("cat d/changed d/new e/x; ls d; cat .env; echo 2 > d/changed; rm kept")
    assert ran.output.startswith("after\nnew\nx\nchanged\nnew\n")
    assert "TOKEN" not in ran.output
    effect = await second.effect()
    assert kinds(effect) == {"d/changed": "modified", "kept": "deleted"}
    await second.keep(effect, None, ())
    await second.close()
    assert ((workspace / "d/changed").read_text(), (workspace / "kept").exists()) == ("2\n", False)


@pytest.mark.full
async def test_what_a_command_leaves_in_tmp_is_not_kept_by_the_next_start(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    overlay = sandbox.overlay()
    note = '{"paths": [], "removed": [], "made": ["evil"], "modes": {}, "before": "", "after": ""}'
    await overlay.sandbox.run_command(f"echo '{note}' > /tmp/keep.json; mkdir /tmp/upper; echo x > /tmp/patch-name")
    await overlay.close()
    await overlay.close()
    (left,) = filter(Path.is_dir, kept_dir("overlays", workspace).iterdir())
    told = await restarted(sandbox, left)
    assert (told, (workspace / "evil").exists()) == ("", False)


@pytest.mark.full
async def test_a_patch_holds_all_that_a_state_holds(sandbox: WorkspaceSandbox, workspace: Path, tmp_path: Path) -> None:
    (workspace / "run.sh").write_text("#!/bin/sh\n")
    (workspace / "run.sh").chmod(0o755)
    (workspace / "old é.txt").write_text("old")
    other = tmp_path / "other"
    shutil.copytree(workspace, other, symlinks=True)
    overlay = sandbox.overlay()
    commands = "rm run.sh; printf '\\0\\1' > b.bin; ln -s b.bin link; echo 1 > new.sh; chmod +x new.sh"
    await overlay.sandbox.run_command(f"{commands}; echo new > 'old é.txt'; echo q > 'quo\"ted'; printf 'no end' > n")
    effect = await overlay.effect()
    patch = await overlay.save_patch(effect, "mine")
    assert patch == patches_dir(workspace) / "mine.patch"
    await overlay.keep(effect, None, ())
    await overlay.close()
    subprocess.run(["git", "apply", str(patch)], cwd=other, check=True, env={"GIT_DIR": "/nonexistent"})
    assert tree_of(other) == tree_of(workspace)
    assert (other / "link").is_symlink()


async def test_an_edit_during_a_command_is_merged_or_stays(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    (workspace / ".gitignore").write_text("local.txt\nbuilt.txt\n")
    for name in ("merged.txt", "same.txt", "local.txt", "gone.txt"):
        (workspace / name).write_text("".join(f"line {number}\n" for number in range(1, 21)))
    overlay = sandbox.overlay()
    command = "sed -i 's/line 2$/command/' *.txt; echo 1 > built.txt; touch go; sleep 0.5"
    running = asyncio.create_task(overlay.sandbox.run_command(command))
    while not (overlay._folder / "upper" / "go").exists():
        await asyncio.sleep(0.05)
    for name, line in (("merged.txt", "line 19"), ("same.txt", "line 2"), ("local.txt", "line 19")):
        (workspace / name).write_text((workspace / name).read_text().replace(f"{line}\n", "user\n"))
    (workspace / "gone.txt").unlink()
    await running
    effect = await overlay.effect()
    assert "user" not in "".join(each.diff for each in effect.changes if each.path in ("merged.txt", "same.txt"))
    for name in ("same.txt", "local.txt", "gone.txt"):
        with pytest.raises(SandboxError, match=name):
            await overlay.keep(effect, units(effect, name), ())
    assert "user" in (workspace / "local.txt").read_text()
    assert "command" not in (workspace / "local.txt").read_text()
    assert not (workspace / "gone.txt").exists()
    kept = await overlay.keep(effect, units(effect, "merged.txt", "built.txt"), ())
    assert any("merged.txt" in note for note in kept.notes)
    assert {"command", "user"} <= set((workspace / "merged.txt").read_text().split("\n"))
    await overlay.close()


@pytest.mark.full
async def test_what_the_user_moved_made_or_locked_during_a_command_stays(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    (workspace / ".gitignore").write_text("built*\n")
    for folder, word in (("code", "old"), ("code.new", "user"), ("built", "old"), ("built.new", "user")):
        (workspace / folder).mkdir()
        (workspace / folder / "a.txt").write_text(f"{word}\n")
    for name in ("locked.txt", "open.txt"):
        (workspace / name).write_text("1\n")
    overlay = sandbox.overlay()
    await overlay.sandbox.run_command("for name in */a.txt *.txt; do echo 2 >> $name; done; mkdir made; echo 1 > made/x")
    for folder in ("code", "built"):
        (workspace / folder).rename(workspace / f"{folder}.old")
        (workspace / f"{folder}.new").rename(workspace / folder)
    (workspace / "made").write_text("user")
    (workspace / "locked.txt").chmod(0o600)
    effect = await overlay.effect()
    for name in ("code/a.txt", "built/a.txt", "made/x"):
        with pytest.raises(SandboxError, match="changed meanwhile"):
            await overlay.keep(effect, units(effect, name), ())
    assert [(workspace / name).read_text() for name in ("code/a.txt", "built/a.txt", "made")] == ["user\n", "user\n", "user"]
    await overlay.keep(effect, units(effect, "locked.txt", "open.txt"), ())
    assert (workspace / "open.txt").read_text() == (workspace / "locked.txt").read_text() == "1\n2\n"
    assert (workspace / "locked.txt").stat().st_mode & 0o777 == 0o600
    assert any(name.startswith("locked.txt (mode 6") for name in effect.special)
    await overlay.close()


async def test_a_folder_that_cannot_be_read_is_named_and_nothing_in_it_goes(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    for number in range(3):
        (workspace / "deep" / str(number)).mkdir(parents=True)
        (workspace / "deep" / str(number) / "file").write_text("x\n")
    before = tree_of(workspace)
    for command in few(("chmod 000 src", "chmod 311 src deep", "chmod 000 deep/1", "chmod 000 deep/*; chmod 000 src")):
        overlay = sandbox.overlay()
        await overlay.sandbox.run_command(command)
        effect = await overlay.effect()
        assert not [each for each in effect.changes if each.kind is FileChangeKind.DELETED], command
        assert not effect.removed
        assert effect.special, command
        await overlay.keep(effect, None, ())
        assert tree_of(workspace) == before
        await overlay.close()


async def test_a_rule_that_denies_a_change_keeps_everything_back(tried: Tried, workspace: Path) -> None:
    overlay, effect = await tried("echo 1 > free; mkdir -p locked; echo 1 > locked/file; rm -r src")
    for pattern in ("Write(locked/**)", "Edit(src/**)", "Write(src/main.py)"):
        with pytest.raises(SandboxError, match="forbids"):
            await overlay.keep(effect, None, [parse_rule(pattern, Effect.DENY, "settings")])
    assert not (workspace / "free").exists()
    await overlay.keep(effect, units(effect, "free"), [parse_rule("Write(locked/**)", Effect.DENY, "settings")])
    assert (workspace / "free").exists()


async def test_a_check_finds_nothing_that_an_earlier_command_left_in_its_home(
    sandbox: WorkspaceSandbox, workspace: Path
) -> None:
    plant = "mkdir -p $HOME/.config /tmp/x /dev/shm/y; touch $HOME/.config/left /tmp/x/left /dev/shm/y/left"
    look = "find $HOME /tmp /dev/shm -name left | grep -v Permission"
    overlay, lasting = sandbox.overlay(), sandbox.overlay(stays=True)
    for place in (sandbox, overlay.sandbox, lasting.sandbox):
        await place.run_command(plant)
        assert (await place.fresh().run_command(look)).output == ""
    await overlay.close()
    await lasting.close()


@pytest.mark.full
async def test_no_command_ends_because_another_needs_a_new_supervisor(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    overlay = sandbox.overlay(stays=True)
    for at in range(3):
        running = asyncio.create_task(overlay.sandbox.run_command("touch began; sleep 0.4; echo over"))
        while not (overlay._folder / "upper" / "began").exists():
            await asyncio.sleep(0.02)
        if at == 0:
            await overlay.sandbox.fresh().run_command("true")
        elif at == 1:
            (workspace / ".env").write_text("KEY=hidden\n")
            await overlay.sandbox.run_command("rm began")
        else:
            await overlay.refresh()
        assert (await running).output == "over\n"
        await overlay.sandbox.run_command("rm -f began")
    await overlay.close()


@pytest.mark.parametrize(("done", "mine"), depth([("", "")], [("", ""), ("a b new", "a"), ("new", "a"), ("a", "b")]))
async def test_what_a_kill_left_half_kept_is_not_kept_where_the_user_took_it_back(
    sandbox: WorkspaceSandbox, tried: Tried, workspace: Path, done: str, mine: str
) -> None:
    for name in "ab":
        (workspace / name).write_text("1\n")
    overlay, effect = await tried("echo 2 > a; echo 2 > b; echo 2 > new")
    note = {"paths": ["a", "b", "new"], "before": effect.before, "after": effect.after, "made": [], "removed": [], "modes": {}}
    overlays._write_note(overlay._folder / "keep.json", note)
    await asyncio.sleep(0.02)
    if done:
        await sandbox._states.restore(effect.after, done.split(), expected=effect.before)
        (workspace / mine).write_text("the user's\n" if mine == "b" else "1\n")
    before = tree_of(workspace)
    told = await restarted(sandbox, overlay._folder)
    assert ("the rest cannot be kept" if done else "not kept") in told
    assert tree_of(workspace) == before
    patch = patches_dir(workspace) / "half-kept-dead.patch"
    assert (patch.exists() and "+2" in patch.read_text()) is bool(done)


async def test_only_outputs_that_git_ignores_are_kept_unasked(sandbox: WorkspaceSandbox, workspace: Path, tried: Tried) -> None:
    fill(workspace, {".gitignore": "/*\n!/*.c\n!/:*\n", "forced.o": "1", "user.db": "1", "build/old": "1", "build/mine": "1"})
    for arguments in (("init", "-q"), ("add", "-f", "forced.o", ".gitignore")):
        subprocess.run(["git", *arguments], cwd=workspace, check=True)
    rules = (parse_rule("Write(build/no)", Effect.DENY, "settings"), parse_rule("Write(build/ask)", Effect.ASK, "settings"))
    asked = [
        "a.c", "forced.o", "user.db", "build/mine", "build/no", "build/ask", ".env", "build/.env", ".venv/bin/python",
        "x/node_modules/.bin/eslint", "venv/lib/a.py", ".vscode/tasks.json", "x/.idea/a", "AGENTS.md", ".gitattributes",
        "build/.gitmodules", ":(top)build/a",
    ]  # fmt: skip
    kept = ["a.o", "build/old", "build/new", ".coverage"]
    write = "; ".join(f"mkdir -p $(dirname '{path}'); echo 2 > '{path}'" for path in (*asked, *kept))
    overlay, effect = await tried(f"{write}; rm build/mine; mkfifo build/pipe; mkdir -p build/empty")
    rest, notes = await overlay.keep_outputs(effect, rules)
    assert (set(rest.paths), notes) == ({*asked}, ["[cannot be kept: build/pipe]"])
    assert [path for path in kept if (workspace / path).read_text() != "2\n"] == []
    assert (workspace / "build/empty").is_dir()
    assert [path for path in asked if (workspace / path).exists()] == ["forced.o", "user.db", "build/mine"]
    overlay, effect = await tried("echo 3 > a.o; rm build/new; echo '*' > .gitignore; echo 3 > b.c")
    rest, _ = await overlay.keep_outputs(effect, rules)
    assert (rest.paths, (workspace / "a.o").read_text(), (workspace / "build/new").exists()) == (
        (".gitignore", "b.c"),
        "3\n",
        False,
    )
