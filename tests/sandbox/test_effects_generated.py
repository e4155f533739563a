"""Generated scripts of commands: the listed effect is the real one, and keeping it all gives what the script itself makes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import BUBBLEWRAP, fill
from tests.sets import depth

RUNS = int(os.environ.get("LMTUI_EFFECT_RUNS", "12"))
NAMES = ("a", "b", "c.sh", "d e", "é", "-f", "x\ny")
FOLDERS = ("", "p/", "p/q/", "r/", "s t/")


def plant(folder: Path, dice: random.Random) -> None:
    for place in FOLDERS:
        (folder / place).mkdir(parents=True, exist_ok=True)
        for name in dice.sample(NAMES, 3):
            (folder / place / name).write_text(f"{dice.random()}\n" * dice.randint(0, 5))
    fill(folder, {"empty/": "", ".gitignore": "r/\n"})


def script(dice: random.Random) -> str:
    def path() -> str:
        return "'./" + dice.choice(FOLDERS) + dice.choice(NAMES) + "'"

    def folder() -> str:
        return "'./" + (dice.choice(FOLDERS[1:])).rstrip("/") + "'"

    made = (
        lambda: f"echo {dice.random()} > {path()}",
        lambda: f"echo {dice.random()} >> {path()}",
        lambda: f"rm -f {path()}",
        lambda: f"rm -rf {folder()}",
        lambda: f"rm -rf {folder()}; mkdir -p {folder()}",
        lambda: f"mv {path()} {path()}",
        lambda: f"mv {folder()} './moved{dice.randint(0, 2)}'",
        lambda: f"cp {path()} {path()}",
        lambda: f"mkdir -p './n{dice.randint(0, 3)}/{dice.randint(0, 3)}'",
        lambda: "rmdir ./empty",
        lambda: f"ln -sf {dice.choice(NAMES)} {path()}" if dice.random() < 0.5 else f"ln -f {path()} {path()}",
        lambda: f"chmod {dice.choice(('+x', '-x', '600', '640', '444'))} {path()}",
        lambda: f"touch {path()}",
        lambda: f"rm -f {path()}; mkdir {path()}",
        lambda: f"find {folder()} -type f -delete",
    )
    return "\n".join(f"{dice.choice(made)()} 2>/dev/null" for _ in range(dice.randint(1, 8))) + "\ntrue\n"


def tree(folder: Path) -> dict[str, object]:
    """Return what is in a folder: content and permission bits of files, targets of links, None for folders."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/", maxsplit=1)[0] in (".lmagent", ".git"):
            continue
        is_file = path.is_file() and not path.is_symlink()
        content = (path.read_bytes(), path.stat().st_mode & 0o777) if is_file else None
        found[name] = path.readlink() if path.is_symlink() else content
    return found


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP], indirect=True)
async def test_the_listed_effect_is_the_real_one(sandbox: WorkspaceSandbox, workspace: Path, tmp_path: Path) -> None:
    for number in range(depth(min(RUNS, 4), RUNS)):
        seed = random.SystemRandom().randrange(1_000_000) if RUNS > 50 else number
        dice = random.Random(seed)
        for path in workspace.iterdir():
            if path.name != ".lmagent":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        plant(workspace, dice)
        real = tmp_path / f"real{number}"
        shutil.copytree(workspace, real, symlinks=True)
        text = script(dice)
        subprocess.run(["bash", "-c", text], cwd=real, check=False, capture_output=True)
        before, wanted = tree(workspace), tree(real)
        overlay = sandbox.overlay()
        await overlay.sandbox.run_command(text)
        effect = await overlay.effect()
        assert tree(workspace) == before, (seed, text)
        differing = {name for name in before.keys() | wanted.keys() if before.get(name, 0) != wanted.get(name, 0)}
        files = {name for name in differing if before.get(name) is not None or wanted.get(name) is not None}
        assert set(effect.paths) == files, (seed, text)
        await overlay.keep(effect, None, ())
        await overlay.close()
        assert tree(workspace) == wanted, (seed, text)
        shutil.rmtree(real)
