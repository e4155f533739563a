from __future__ import annotations

import re
import time

from lmtui.core.permissions.path_patterns import secret_regex
from lmtui.core.permissions.rules import Effect, Rule, mask_regex, masking_patterns, parse_rule, revealing_patterns
from tests.sets import for_each


def rules(*texts: str) -> tuple[Rule, ...]:
    split = (text.partition(" ") for text in texts)
    return tuple(parse_rule(rule, Effect(effect), "settings") for effect, _, rule in split)


def hides(source: str, path: str) -> bool:
    return re.compile(source.encode("ascii")).match(path.encode()) is not None


@for_each(("rule", "expected"), [
    ("deny Read(./secrets/**)", ("secrets/**",)), ("deny Grep(/secrets/)", ("/secrets",)), ("deny *(a)", ("a",)),
    ("deny Read", ()), ("ask Read(a)", ()), ("allow Read(a)", ()), ("deny Write(a)", ()), ("deny Shell(cat a)", ()),
])  # fmt: skip
def test_masks_come_from_deny_rules_for_reading(rule: str, expected: tuple[str, ...]) -> None:
    assert masking_patterns(rules(rule)) == expected


@for_each(("rule", "expected"), [
    ("allow Read(.env)", (".env",)), ("allow Read(**/*.pem)", ("**/*.pem",)),
    ("allow Read(conf/{.env,.env.*})", ("conf/{.env,.env.*}",)), ("allow Read(src/**)", ()), ("allow Read(*.toml)", ()),
    ("allow Read", ()), ("allow Write(.env)", ()),
])  # fmt: skip
def test_only_rules_that_name_secrets_reveal_them(rule: str, expected: tuple[str, ...]) -> None:
    assert revealing_patterns(rules(rule)) == expected


def test_a_mask_covers_what_is_in_a_folder() -> None:
    source = mask_regex(masking_patterns(rules("deny Read(sec*)", "deny Read(a/**)", "deny Read(ä?/[!x])")))
    for path in ("secrets/", "secrets/k/l", "sec", "a/b", "a/b/c", "äö/y"):
        assert hides(source, path), path
    for path in ("x/secrets", "a/", "ab", "äö/x", "äöö/y"):
        assert not hides(source, path), path
    assert not hides(mask_regex(()), "a")


@for_each(
    "path", [".env", "a/.ENV", "a/.env.local", "id_rsa", "a/b/k.pem", ".ssh/", "a/.aws/x", ".kube/config", "credentials.json"]
)
def test_the_secret_mask_covers_secret_files(path: str) -> None:
    assert hides(secret_regex(), path)


@for_each(
    "path",
    [".env.example", "a/.env.sample", "id_rsa.pub", "credentials.py", "src/credentials/", "src/credentials/a.txt", "main.py"]
    + [f"x/{each}/k.pem" for each in ("node_modules", ".venv", "venv", "site-packages", ".tox", "__pycache__", "vendor")]
    + [f"{each}/a/.env" for each in ("target", ".cargo", "go/pkg")],
)
def test_the_secret_mask_leaves_public_files_and_dependencies(path: str) -> None:
    assert not hides(secret_regex(), path)


def test_no_pattern_takes_more_than_linear_time() -> None:
    hostile = ("deny Read(**/" + "*a/**/" * 20 + "z*b*c*d)", "deny Read(" + "*e" * 40 + "z)", "deny Read(" + "**/" * 30 + "x)")
    source = re.compile(mask_regex(masking_patterns(rules(*hostile))).encode())
    began = time.process_time()
    for path in (b"a/" * 20_000, b"e" * 40_000, b"zbcd/" * 8_000):
        source.match(path)
        re.compile(secret_regex().encode()).match(path)
    assert time.process_time() - began < 1
