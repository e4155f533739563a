"""The published plan of twelve: right code passes its checks and the hidden ones; without it, none passes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.exam.planned import HIDDEN, PLAN, tasks

_RIGHT = {
    "slug": "import re\ndef slug(text):\n    return re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')\n",
    "money": (
        "def parse(text):\n    whole, _, part = text.lstrip('-').partition('.')\n"
        "    return (-1 if text.startswith('-') else 1) * (int(whole) * 100 + int(part.ljust(2, '0')))\n"
        "def show(cents):\n    return f\"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}\"\n"
    ),
    "dates": (
        "def days_in_month(year, month):\n    if month == 2:\n"
        "        return 29 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 28\n"
        "    return 30 if month in (4, 6, 9, 11) else 31\n"
        "def days_in_year(year):\n    return sum(days_in_month(year, each) for each in range(1, 13))\n"
    ),
    "words": (
        "import collections, re\ndef count(text):\n    return dict(collections.Counter(re.findall('[a-z]+', text.lower())))\n"
    ),
    "table": (
        "def render(rows):\n    widths = [max(map(len, column)) for column in zip(*rows)]\n"
        "    return '\\n'.join('  '.join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows)\n"
    ),
    "csvline": (
        "def join(values):\n"
        "    return ','.join('\"' + v.replace('\"', '\"\"') + '\"' if ',' in v or '\"' in v else v for v in values)\n"
    ),
    "roman": (
        "_SIGNS = ((1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'), (40, 'XL'),\n"
        "          (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I'))\n"
        "def to_roman(number):\n    if not 0 < number < 4000:\n        raise ValueError(number)\n    out = ''\n"
        "    for value, sign in _SIGNS:\n        out += sign * (number // value)\n        number %= value\n    return out\n"
    ),
    "stack": (
        "class Stack:\n    def __init__(self):\n        self.items = []\n"
        "    def push(self, item):\n        self.items.append(item)\n"
        "    def pop(self):\n        return self.items.pop()\n    def peek(self):\n        return self.items[-1]\n"
        "    def __len__(self):\n        return len(self.items)\n"
    ),
    "settings": (
        "def read(text):\n    lines = [each for each in text.splitlines() if '=' in each and not each.startswith('#')]\n"
        "    return {k.strip(): v.strip() for k, _, v in (each.partition('=') for each in lines)}\n"
    ),
    "frequent": (
        "from kit.words import count\ndef frequent(text, number):\n"
        "    return sorted(count(text).items(), key=lambda each: (-each[1], each[0]))[:number]\n"
    ),
    "command": (
        "from kit.roman import to_roman\nfrom kit.slug import slug\ndef main(arguments):\n    match arguments:\n"
        "        case ['slug', text]:\n            print(slug(text))\n        case ['roman', number]:\n"
        "            print(to_roman(int(number)))\n        case _:\n            return 2\n    return 0\n"
    ),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PLAN, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__")))


def _passes(project: Path, *command: str) -> bool:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False).returncode == 0


def test_right_code_passes_all_checks(project: Path) -> None:
    for name, text in _RIGHT.items():
        (project / f"kit/{name}.py").write_text(text)
    for number, spec in enumerate(tasks(), 1):
        assert all(_passes(project, "bash", "-c", each) for each in spec.checks), spec.title
        assert _passes(project, "python", HIDDEN, str(number)), spec.title


def test_without_it_nothing_passes(project: Path) -> None:
    for number, spec in enumerate(tasks(), 1):
        assert not all(_passes(project, "bash", "-c", each) for each in spec.checks), spec.title
        assert not _passes(project, "python", HIDDEN, str(number)), spec.title
