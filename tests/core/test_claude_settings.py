from __future__ import annotations

from typing import Any

from lmtui.core.claude_settings import claude_rules
from tests.sets import for_each


@for_each(("text", "allowed", "denied"), [
    ("Bash(npm run test:*)", ["Shell(npm run test)", "Shell(npm run test *)"], ...), ("Bash", ["Shell"], ...),
    ("Bash(ls *)", ["Shell(ls)", "Shell(ls *)"], ...), ("Bash(ls [a]?)", [r"Shell(ls \[a\]\?)"], ...),
    ("Read(./secrets/**)", ["Read(secrets/**)"], ...), ("Read(.env)", ["Read(**/.env)"], ...),
    ("Read(/docs/a.md)", ["Read(docs/a.md)"], ...), ("Edit(src/**)", ["Edit(src/**)", "Write(src/**)"], ...),
    ("Write", ["Write"], ...), ("mcp__git", ["mcp__git__*"], ...), ("mcp__git__log", ["mcp__git__log"], ...),
    ("WebFetch(domain:example.org)", ["Network(example.org)"], ["Network(example.org)", "Network(.example.org)"]),
    ("WebFetch(domain:*.example.org)", ["Network(.example.org)"], ...), ("WebFetch", [], ["Fetch"]),
    ("WebFetch(domain:*)", [], ["Fetch"]), ("WebFetch(domain:a b)", [], ...), ("WebSearch", ["Web_search"], ...),
    ("Read(~/x)", [], ...), ("Read(//etc/**)", [], ...), ("Read(../x)", [], ...), ("Read({a,b}/c)", [], ...),
    ("Task(Explore)", [], ...), ("Grep(x)", [], ...), ("no rule (", [], ...), ("Read(a\x1b[2J)", [], ...), ("", [], ...),
    (f"Read({'a' * 600})", [], ...), (3, [], ...), (None, [], ...), ("*", [], ...), ("mcp__git(x)", [], ...),
])  # fmt: skip
def test_a_rule_is_said_in_our_words_or_named(text: object, allowed: list[str], denied: Any) -> None:
    for effect, expected in (("allow", allowed), ("deny", allowed if denied is ... else denied), ("ask", None)):
        rules, unused = claude_rules({"permissions": {effect: [text]}})
        assert expected is None or list(rules.get(effect, ())) == expected
        assert bool(rules) != bool(unused)
        assert all(each.isprintable() and len(each) <= 80 for each in unused)


def test_what_has_no_meaning_here_is_named_and_hostile_sizes_have_a_limit() -> None:
    found = {"env": {"A": "1"}, "hooks": {}, "permissions": {"defaultMode": "acceptEdits", "deny": "Read", "ask": 3}}
    assert claude_rules(found) == ({"deny": ("Read",)}, ["env", "permissions.defaultMode", "ask 3"])
    assert claude_rules({"permissions": [1]})[1] == ["permissions"]
    rules, unused = claude_rules({"permissions": {"allow": ["Bash(a)"] * 9_000, **{f"k{n}": 1 for n in range(99)}}})
    assert (rules, len(unused)) == ({"allow": ("Shell(a)",)}, 21)
