from __future__ import annotations

from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import Access, Effect, Mode, Verdict, parse_rule
from lmtui.core.permissions.suggested_rules import suggested_rules
from tests.sets import for_each


@for_each(("command", "wider"), [
    ("pytest -q tests", ["Shell(pytest *)"]), ("git commit -m 'a b'", ["Shell(git commit *)"]),
    ("npm run build -- --x", ["Shell(npm run build *)"]), ("timeout 60 pytest -q", ["Shell(pytest *)"]),
    ("python -m pytest", ["Shell(pytest *)"]), ("cd src && make test | tail -3", ["Shell(make test *)"]),
    ("./run.sh a", ["Shell(./run.sh *)"]), ("ls -la", ["Shell(ls *)"]), ("make a && npm test", []), ("python a.py", []),
    ("python -c 'x'", []), ("bash a.sh", []), ("sudo ls", []), ("env make test", ["Shell(make test *)"]), ("git push", []),
    ("git reset --hard", []), ("rm -rf src", []), ("npm publish", []), ("find . -delete", []), ("sed -i s/a/b/ f", []),
    ("git -c a=b log", []), ("ssh host", []), ("echo $(x)", []), ("make > x", []), ("ls | xargs rm", []), ("npx tsc", []),
    ("git x", []),
])  # fmt: skip
def test_a_wider_rule_is_offered_where_it_is_safe_and_covers_the_command(command: str, wider: list[str]) -> None:
    exact, *others = suggested_rules("shell", Access.EXECUTE, (command,))
    assert others == wider
    for text in (exact, *others):
        rule = parse_rule(text, Effect.ALLOW, "")
        assert decide("shell", Access.EXECUTE, command, Mode.NORMAL, (rule,)).verdict is Verdict.ALLOW


@for_each(("tool", "subjects", "expected"), [
    ("write", ("src/a/b.py",), ("Write(src/a/b.py)", "Write(src/a/**)", "Write(src/**)")),
    ("edit", ("src/b.py",), ("Edit(src/b.py)", "Edit(src/**)")), ("edit", ("b.py",), ("Edit(b.py)",)),
    ("edit", ("a[1]/b*.py",), (r"Edit(a\[1\]/b\*.py)", r"Edit(a\[1\]/**)")), ("read", ("conf/.env",), ("Read(conf/.env)",)),
    ("git_add", ("src/a", "src/b/c"), ("Git_add", "Git_add(src/**)")), ("git_add", ("a", "src/b"), ("Git_add",)),
    ("mcp__github__list_issues", ("github/list issues",), ("mcp__github__list_issues", "mcp__github__*")),
    ("git_commit", ("fix: x",), ("Git_commit(fix: x)", "Git_commit")),
])  # fmt: skip
def test_paths_and_other_subjects_offer_their_folder(tool: str, subjects: tuple[str, ...], expected: tuple[str, ...]) -> None:
    access = Access.EXECUTE if tool.startswith("mcp__") else Access.WRITE
    assert suggested_rules(tool, access, subjects) == expected
    for subject in subjects:
        for text in expected:
            rule = parse_rule(text, Effect.ALLOW, "")
            assert decide(tool, access, subject, Mode.MANUAL, (rule,)).verdict is Verdict.ALLOW
