from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from lmtui.cli import run


def completion(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("words", "expected"), [
    (["ru"], {"run"}), (["run", "--output-"], {"--output-schema", "--output-last-message"}),
    (["run", "--mode", ""], {"manual", "normal", "auto", "try", "plan"}), (["--pl"], {"--plain", "--planner-model"}),
    (["--plain", "run", "--mode", "p"], {"plan"}), (["sandbox", "ex"], {"explain"}),
    (["completion", ""], {"bash", "zsh", "fish"}),
    (["run", "--workspace", "/us"], {"/usr"}),
])  # fmt: skip
def test_bash_completes_commands_options_and_values(
    words: list[str], expected: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = shlex.join(["lmtui", *words])
    asked = f'_shtab_lmtui lmtui {shlex.join(words[-1:])} {shlex.join(words[-2:-1])}; echo "${{COMPREPLY[@]}}"'
    ask = f"{completion('bash', capsys)}\nCOMP_WORDS=({given}); COMP_CWORD={len(words)}; {asked}"
    found = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert (set(found.stdout.split()), found.stderr) == (expected, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_takes_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    found = subprocess.run([shell, "-n"], input=completion(shell, capsys), capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_help_shows_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help"]) == 0
    listed = capsys.readouterr().out
    assert "  project-tools " in listed
    assert "0001-one-journal" not in listed
    assert run(["help", "project tools"]) == 0
    assert capsys.readouterr().out.startswith("# Your project's tools in the sandbox")
    assert run(["help", "xyzzyplugh"]) == 64
    assert "no help page matches 'xyzzyplugh'" in capsys.readouterr().err
