from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lmtui.core.assert_values import with_values


def _said(command: str) -> str:
    told = with_values(command).replace("python ", f"{sys.executable} ", 1)
    found = subprocess.run(["bash", "-c", told], capture_output=True, text=True, check=False)
    return found.stderr.splitlines()[-1] if found.returncode else ""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("assert 1 + 1 == 3", "AssertionError: 1 + 1 == 3: the left side is 2, the right side is 3"),
        ("x = 'a%sb'; assert x == 'c'", "AssertionError: x == 'c': the left side is 'a%sb', the right side is 'c'"),
        ("assert 1 == 1 and 'b' in 'a'", "AssertionError: 'b' in 'a': the left side is 'b', the right side is 'a'"),
        ("assert not [0]", "AssertionError: not [0] is False"),
        ("assert 1 < 2 < 2", "AssertionError: 1 < 2 < 2 is False"),
        ("for n in (1, 2): assert n < 2", "AssertionError: n < 2: the left side is 2, the right side is 2"),
        ("assert 1 == 1; assert False, 'why'", "AssertionError: why"),
        ("assert 1 == 1", ""),
    ],
)
def test_a_bare_assert_says_its_values(code: str, said: str) -> None:
    assert _said(f'python -c "{code}"') == said


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q", "python -c 'print(1)'", "python -c 'assert 0, 1'", "python -c 'assert' x", "python -c 'assert (' ",
        "python x.py", "python -c \"assert '$HOME' == 1\"", "python -c 'assert 0' | cat", "cd a && python -c 'assert 0'",
        "python -c 'assert 0", "", pytest.param(f"python -c 'assert {'not ' * 900}1'", id="deep"),
        pytest.param(f"python -c 'assert {'-' * 7000}1'", id="deeper"),
    ],
)  # fmt: skip
def test_any_other_command_is_left_alone(command: str) -> None:
    assert with_values(command) == ""


def test_a_name_of_the_code_is_quoted(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert _said(f"python -c \"assert '; touch {mark}' == ''\"")
    assert not mark.exists()
