"""What is kept of an effect: any of its hunks, and never over what others write meanwhile."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import BUBBLEWRAP
from tests.sets import depth

RUNS = int(os.environ.get("LMTUI_EFFECT_RUNS", "8"))
LINES, APART = 90, 9

pytestmark = pytest.mark.parametrize("sandbox", [BUBBLEWRAP], indirect=True)


def text(changed: frozenset[int] = frozenset(), *, is_ended: bool = True) -> str:
    lines = [f"changed {number}" if number in changed else f"line {number}" for number in range(LINES)]
    return "\n".join(lines) + ("\n" if is_ended else "")


@pytest.mark.full
async def test_any_hunks_are_kept_as_they_are(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    for number in range(depth(min(RUNS, 3), RUNS)):
        dice = random.Random(number)
        wanted: dict[str, str] = {}
        units: list[int] = []
        first = 0
        overlay = sandbox.overlay()
        commands: list[str] = []
        for name in ("a.txt", "b é.txt", "c.txt"):
            is_ended = dice.random() < 0.7
            (workspace / name).write_text(text(is_ended=is_ended))
            places = sorted(dice.sample(range(0, LINES, APART), dice.randint(1, 6)))
            commands += [f"sed -i 's/^line {place}$/changed {place}/' './{name}'" for place in places]
            chosen = [at for at in range(len(places)) if dice.random() < 0.5]
            units += [first + at for at in chosen]
            first += len(places)
            wanted[name] = text(frozenset(places[at] for at in chosen), is_ended=is_ended)
        await overlay.sandbox.run_command("\n".join(commands))
        effect = await overlay.effect()
        assert sum(part.hunks for part in effect.parts) == first, number
        await overlay.keep(effect, units, ())
        await overlay.close()
        assert {name: (workspace / name).read_text() for name in wanted} == wanted, number


@pytest.mark.full
async def test_nothing_that_others_write_meanwhile_is_lost(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    names = [f"f{number}.txt" for number in range(8)]
    for number in range(RUNS):
        dice = random.Random(number)
        for name in names:
            (workspace / name).write_text(text())
        overlay = sandbox.overlay()
        await overlay.sandbox.run_command(
            "sed -i 's/^line 9$/changed 9/' f[0-5].txt; rm f6.txt; echo new > made.txt; rm -f f7.txt"
        )
        effect = await overlay.effect()
        written: dict[str, list[str]] = {}

        def write(dice: random.Random = dice, written: dict[str, list[str]] = written) -> None:
            for at in range(dice.randint(4, 12)):
                time.sleep(dice.random() * 0.06)
                name = dice.choice([*names, "made.txt"])
                with (workspace / name).open("a") as file:
                    file.write(f"mine {at}\n")
                    file.flush()
                    if not os.fstat(file.fileno()).st_nlink:  # it was deleted while it was open here, as rm would do it
                        continue
                written.setdefault(name, []).append(f"mine {at}")

        writer = threading.Thread(target=write)
        writer.start()
        with contextlib.suppress(SandboxError):
            await overlay.keep(effect, None, ())
        writer.join()
        await overlay.close()
        for name, lines in written.items():
            left = (workspace / name).read_text().splitlines()
            assert set(lines) <= set(left), (number, name, lines, left[-8:])
        (workspace / "made.txt").unlink(missing_ok=True)
