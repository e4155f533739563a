"""What the docs say is true: generated pages are as their tables, links lead somewhere, the README leads to every page."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from docs import make_events, make_keys, make_settings, make_tools
from lmtui.config import SETTINGS
from lmtui.store.session_logs import EVENT_TYPES
from lmtui.tools.registry import ALL_TOOLS
from lmtui.tui.commands import COMMANDS
from tests.sets import for_each

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(set(ROOT.glob("*.md")) - {ROOT / "AGENTS.md"}), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("made", [make_events, make_keys, make_settings, make_tools], ids=lambda made: made.__name__)
def test_a_generated_page_is_what_its_table_gives(made: ModuleType) -> None:
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run `make docs`"


def _first_cells(page: str) -> list[str]:
    return [line.split(" | ")[0].strip("| `") for line in page.splitlines() if line.startswith("| `")]


def test_every_command_setting_and_tool_stands_on_its_page_once() -> None:
    assert sorted(_first_cells(make_keys.page())) == sorted(each.id for each in COMMANDS)
    assert _first_cells(make_settings.page()) == list(SETTINGS)
    assert _first_cells(make_tools.page()) == [*(tool.name for tool in ALL_TOOLS), "report_result"]


def test_every_kind_of_event_stands_on_its_page_once() -> None:
    kinds = re.findall(r"^### `(\w+)`$", make_events.page(), re.MULTILINE)
    assert sorted(kinds) == sorted(each.kind for each in EVENT_TYPES)
    assert kinds[: len(make_events.STABLE)] == list(make_events.STABLE)


def test_every_field_of_an_event_has_a_meaning() -> None:
    every = [(each, field.name) for each in EVENT_TYPES for field in fields(each)]
    assert [f"{each.kind}.{name}" for each, name in every if not make_events.meaning(each, name)] == []


def test_fields_that_the_page_of_events_names_are_there() -> None:
    names = {each.kind: {field.name for field in fields(each)} for each in EVENT_TYPES}
    assert {kind: set(own) - names[kind] for kind, own in make_events.STABLE.items() if set(own) - names[kind]} == {}
    names[""] = set().union(*names.values())
    told = [(key, *key.rpartition(".")[::2]) for key in make_events.MEANINGS]
    assert [key for key, kind, name in told if name not in names.get(kind, ())] == []


def _links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link for link in found if not link.startswith(("http:", "https:", "#", "mailto:"))]


@for_each("page", PAGES)
def test_links_lead_to_what_is_there(page: Path) -> None:
    for link in _links(page):
        assert (page.parent / link.partition("#")[0]).exists(), f"{link} in {page.relative_to(ROOT)}"


def test_every_page_is_found_from_the_readme() -> None:
    seen, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        linked = [(page.parent / link.partition("#")[0]).resolve() for link in _links(page)]
        ahead += [each for each in linked if each.suffix == ".md" and each.exists()]
        ahead += [each for folder in linked if folder.is_dir() for each in folder.glob("*.md")]
    assert not [str(page.relative_to(ROOT)) for page in PAGES if page not in seen]


def test_files_that_the_docs_name_are_there() -> None:
    for page in (ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"):
        for name in re.findall(r"`((?:lmtui|tests|themes|docs|benchmarks)/[\w/.-]+\.(?:py|toml|md))`", page.read_text()):
            assert (ROOT / name).exists(), f"{name} in {page.name}"
