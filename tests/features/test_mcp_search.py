from __future__ import annotations

import json

import pytest

from lmtui.core.mcp import McpServer, McpTool, ServerState
from lmtui.features.mcp.toolbox import found_text, search, search_spec
from lmtui.models.tokens import count_tokens
from tests.features.paper_server import OPTIONS, tools


def two_hundred() -> list[McpTool]:
    OPTIONS["tools"] = "200"
    listed = tools()
    OPTIONS.pop("tools")
    return [
        McpTool(f"mcp__shop__{tool['name']}", "shop", tool["name"], tool["description"], tool["inputSchema"])
        for tool in listed[-200:]
    ]


@pytest.mark.parametrize(("query", "expected"), [
    ("create a ticket", "create_ticket"), ("delete invoices", "delete_invoice"),
    ("exporting metrics", "export_metric"), ("merge branch", "merge_branch"),
    ("archive_photo", "archive_photo"), ("countRecipes", "count_recipe"),
    ("mcp__shop__update_sensor", "update_sensor"),
])  # fmt: skip
def test_the_right_one_of_two_hundred_stands_first(query: str, expected: str) -> None:
    assert search(query, two_hundred())[0].own_name == expected


def test_what_is_found_comes_with_its_schema_and_no_more_than_five() -> None:
    text = found_text("create ticket", two_hundred())
    assert text.startswith("mcp__shop__create_ticket: Create one ticket of the shop, by its id.\n  arguments: {")
    assert text.count("arguments: {") == 5
    assert "200 tools in all" in text


@pytest.mark.parametrize("query", ["", "???", "zebra"])
def test_what_fits_nothing_is_said_with_the_servers(query: str) -> None:
    assert "No tool fits" in found_text(query, two_hundred())
    assert "Servers: shop" in found_text(query, two_hundred())


def test_no_tools_at_all_are_said_too() -> None:
    assert "none is ready" in found_text("ticket", [])


@pytest.mark.parametrize("count", [1, 10, 60])
def test_its_price_does_not_grow_with_servers_or_tools(count: int) -> None:
    servers = [McpServer(f"a-rather-long-server-name-{i}", "f", ServerState.READY) for i in range(count)]
    spec = search_spec(servers)
    told = json.dumps(
        {"type": "function", "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters}}
    )
    assert count_tokens(told) <= 300
