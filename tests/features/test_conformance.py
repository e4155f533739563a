"""The official conformance suite for clients against lmtui's own servers; `docs/mcp.md` names what is left out and why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.features.real_servers import node, package

CLIENT = Path(__file__).parent / "conformance_client.py"
ROOT = Path(__file__).parents[2]
PASS = (
    "initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", "auth/metadata-default",
    "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3", "auth/basic-cimd", "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none", "auth/pre-registration",
    "auth/2025-03-26-oauth-endpoint-fallback", "auth/resource-mismatch", "auth/offline-access-scope",
    "auth/offline-access-not-supported",
)  # fmt: skip
LEFT_OUT = (
    "auth/2025-03-26-oauth-metadata-backcompat", "auth/client-credentials-jwt", "auth/client-credentials-basic",
    "auth/cross-app-access-complete-flow",
)  # fmt: skip
LIMIT_S = 60
pytestmark = pytest.mark.full


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [node(), package("conformance"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S)


@pytest.mark.parametrize("scenario", PASS)
def test_a_scenario_of_the_suite_passes(scenario: str, tmp_path: Path) -> None:
    found = suite("client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario, "-o", str(tmp_path))
    assert "OVERALL: PASSED" in found.stdout + found.stderr, (found.stdout + found.stderr)[-3000:]


def test_no_scenario_of_the_suite_is_forgotten() -> None:
    listed = suite("list").stdout.partition("Client scenarios")[2]
    names = {line.split()[1] for line in listed.splitlines() if line.strip().startswith("- ")}
    assert names == {*PASS, *LEFT_OUT}
