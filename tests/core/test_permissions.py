from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.core.permissions.decide import SkillScope, decide, decide_all
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import THIS_SESSION, Access, Effect, Mode, Rule, Verdict, exact_rule, parse_rule
from lmtui.core.permissions.suggested_rules import suggested_rules
from lmtui.features.skills.values import PROMOTE_TOOL
from tests.sets import for_each


def allow(text: str) -> Rule:
    return parse_rule(text, Effect.ALLOW, "test")


def deny(text: str) -> Rule:
    return parse_rule(text, Effect.DENY, "test")


def verdict(tool: str, access: Access, subject: str, mode: Mode = Mode.NORMAL, *rules: Rule) -> Verdict:
    return decide(tool, access, subject, mode, rules).verdict


@for_each(("mode", "access", "expected"), [
    (Mode.MANUAL, Access.READ, Verdict.ASK), (Mode.MANUAL, Access.WRITE, Verdict.ASK),
    (Mode.MANUAL, Access.EXECUTE, Verdict.ASK), (Mode.MANUAL, Access.NONE, Verdict.ALLOW),
    (Mode.NORMAL, Access.READ, Verdict.ALLOW), (Mode.NORMAL, Access.WRITE, Verdict.ASK),
    (Mode.NORMAL, Access.EXECUTE, Verdict.ASK), (Mode.AUTO, Access.WRITE, Verdict.ALLOW),
    (Mode.AUTO, Access.EXECUTE, Verdict.ALLOW), (Mode.PLAN, Access.READ, Verdict.ALLOW),
    (Mode.PLAN, Access.WRITE, Verdict.DENY), (Mode.PLAN, Access.EXECUTE, Verdict.DENY),
])  # fmt: skip
def test_modes(mode: Mode, access: Access, expected: Verdict) -> None:
    assert verdict("tool", access, "x", mode) is expected


def test_deny_comes_before_every_mode_and_no_rule_opens_plan_mode_or_takes_an_added_folder_there() -> None:
    for mode in Mode:
        assert verdict("shell", Access.EXECUTE, "rm -rf x", mode, allow("Shell"), deny("Bash(rm *)")) is Verdict.DENY
    assert verdict("write", Access.WRITE, "a", Mode.PLAN, allow("Write")) is Verdict.DENY
    assert verdict("write", Access.WRITE, "/srv/lib/a.py", Mode.AUTO) is Verdict.ALLOW
    assert verdict("write", Access.WRITE, "/srv/lib/a.py", Mode.PLAN, allow("Write(/srv/**)")) is Verdict.DENY


@for_each(("rule", "path", "expected"), [
    ("Write(src/**)", "src/a/b.py", Verdict.ALLOW), ("Write(src/**)", "srcs/a.py", Verdict.ASK),
    ("Write(src/*.py)", "src/a.py", Verdict.ALLOW), ("Write(src/*.py)", "src/a/b.py", Verdict.ASK),
    ("Write(**/*.py)", "b.py", Verdict.ALLOW), ("Write(**/*.py)", "a/b.py", Verdict.ALLOW),
    ("Write", "anything", Verdict.ALLOW), ("*(docs/**)", "docs/a", Verdict.ALLOW), ("Edit(a)", "a", Verdict.ASK),
])  # fmt: skip
def test_path_rules(rule: str, path: str, expected: Verdict) -> None:
    assert verdict("write", Access.WRITE, path, Mode.NORMAL, allow(rule)) is expected


@for_each("command", [
    "git status; rm -rf ~", "git status && rm x", "git status | sh", "git status `rm x`", "git status $(rm x)",
    "git status\nrm x", "git status > ~/.bashrc", "git status & rm x", "git status ${x:-$(rm a)}", "git status\rrm x",
    "A=1 git status", "git status <(rm x)", "git\u00a0status", "git status #\nrm x", "gıt status",
])  # fmt: skip
def test_an_allowed_prefix_does_not_carry_more(command: str) -> None:
    assert verdict("shell", Access.EXECUTE, command, Mode.NORMAL, allow("Shell(git status*)")) is Verdict.ASK


@given(st.text(max_size=40))
def test_the_exact_rule_covers_its_command_and_no_other(command: str) -> None:
    rule = exact_rule("shell", command, "session")
    read_again = parse_rule(str(rule), Effect.ALLOW, "session")
    assert verdict("shell", Access.EXECUTE, command, Mode.MANUAL, read_again) is Verdict.ALLOW
    assert verdict("shell", Access.EXECUTE, command + "x", Mode.MANUAL, read_again) is Verdict.ASK


@for_each("text", ["", "Shell(", "rm -rf", "Sh ell(x)", "(x)", "Write(a) b"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a permission rule"):
        allow(text)


@for_each("tool", ["write", "edit", "mkdir"])
def test_a_deny_rule_for_one_changing_tool_holds_for_all(tool: str) -> None:
    assert verdict(tool, Access.WRITE, "secrets/a", Mode.AUTO, deny("Write(secrets/**)")) is Verdict.DENY


def ask(text: str) -> Rule:
    return parse_rule(text, Effect.ASK, "test")


def test_a_call_about_several_files_and_a_rule_that_asks_are_decided_by_the_strictest() -> None:
    rules = (allow("Git_add(src/**)"), deny("Git_add(secrets/**)"))
    assert decide_all("git_add", Access.WRITE, ("src/a", "b"), Mode.NORMAL, rules).verdict is Verdict.ASK
    assert decide_all("git_add", Access.WRITE, ("src/a", "secrets/b"), Mode.AUTO, rules).verdict is Verdict.DENY
    assert decide_all("git_add", Access.WRITE, ("src/a", "src/b"), Mode.NORMAL, rules).verdict is Verdict.ALLOW
    assert verdict("grep", Access.READ, "a/b", Mode.AUTO, deny("Read(a/**)")) is Verdict.DENY
    assert verdict("read", Access.READ, "a/b", Mode.AUTO, deny("Grep(a/**)")) is Verdict.DENY
    assert verdict("grep", Access.READ, "a", Mode.AUTO, deny("Read(a/**)")) is Verdict.DENY
    assert verdict("grep", Access.READ, "b", Mode.AUTO, deny("Read(a/**)")) is Verdict.ALLOW
    for mode in (Mode.NORMAL, Mode.AUTO):
        assert verdict("write", Access.WRITE, "src/a", mode, ask("Edit(src/**)"), allow("Write(src/**)")) is Verdict.ASK
    assert verdict("write", Access.WRITE, "src/a", Mode.AUTO, ask("Write(src/**)"), deny("Write(src/a)")) is Verdict.DENY
    assert verdict("write", Access.WRITE, "b", Mode.AUTO, ask("Write(src/**)")) is Verdict.ALLOW
    granted = exact_rule("write", "src/a", THIS_SESSION)
    assert verdict("write", Access.WRITE, "src/a", Mode.NORMAL, ask("Write(src/**)"), granted) is Verdict.ALLOW


@for_each(("rule", "expected"), [
    ("mcp__git__list_Files", Verdict.ALLOW), ("mcp__git__list_files", Verdict.ALLOW), ("mcp__git__*", Verdict.ALLOW),
    ("mcp__*", Verdict.ALLOW), ("Mcp(git/list_Files)", Verdict.ALLOW), ("Mcp(git/*)", Verdict.ALLOW),
    ("Mcp(git)", Verdict.ALLOW), ("Mcp(*/list_Files)", Verdict.ALLOW), ("Mcp", Verdict.ALLOW), ("*", Verdict.ALLOW),
    ("mcp__git__list", Verdict.ASK), ("mcp__gi*__list", Verdict.ASK), ("mcp__github__*", Verdict.ASK),
    ("Shell(git/list_Files)", Verdict.ASK),
])  # fmt: skip
def test_rules_for_mcp_tools_name_server_and_tool(rule: str, expected: Verdict) -> None:
    def decided(mode: Mode, *rules: Rule) -> Verdict:
        return verdict("mcp__git__list_Files", Access.EXECUTE, "git/list files", mode, *rules)

    assert decided(Mode.NORMAL, allow(rule)) is expected
    assert decided(Mode.PLAN, allow(rule)) is Verdict.DENY
    assert decided(Mode.AUTO, ask(rule)) is (Verdict.ASK if expected is Verdict.ALLOW else Verdict.ALLOW)
    assert decided(Mode.AUTO, deny(rule)) is (Verdict.DENY if expected is Verdict.ALLOW else Verdict.ALLOW)
    assert str(allow(rule)).lower() in (rule.lower(), str(allow(str(allow(rule)))).lower())


def test_a_function_that_is_to_become_a_tool_takes_no_rule() -> None:
    decision = decide(PROMOTE_TOOL, Access.WRITE, "words.py", Mode.AUTO, (Rule(Effect.ALLOW, PROMOTE_TOOL),))
    assert (decision.verdict, decision.takes_no_rule) == (Verdict.ASK, True)


@for_each(("rule", "subject", "expected"), [
    ("Edit(/srv/lib/src/**)", "/srv/lib/src/a.py", Verdict.ALLOW), ("Edit(/srv/lib/**)", "/srv/lib/src/a.py", Verdict.ALLOW),
    ("Edit(/srv/lib/src/**)", "/srv/lib/a.py", Verdict.ASK), ("Edit(/srv/lib)", "/srv/library/a.py", Verdict.ASK),
    ("Edit", "/srv/lib/a.py", Verdict.ASK), ("Edit(**)", "/srv/lib/a.py", Verdict.ASK),
    ("Edit(**/*.py)", "/srv/lib/a.py", Verdict.ASK), ("Edit(/**)", "/srv/lib/a.py", Verdict.ASK),
    ("Edit(srv/lib/**)", "/srv/lib/a.py", Verdict.ASK), ("Edit(/srv/lib/**)", "../lib/a.py", Verdict.ASK),
    ("Edit(/src/**)", "src/a.py", Verdict.ALLOW), ("Edit(/src/a.py)", "src/a.py", Verdict.ALLOW),
])  # fmt: skip
def test_only_a_rule_with_a_whole_path_lets_an_added_folder_be_changed(rule: str, subject: str, expected: Verdict) -> None:
    assert verdict("edit", Access.WRITE, subject, Mode.NORMAL, allow(rule)) is expected


@for_each("rule", ["Write(/srv/lib/src/**)", "Write(/srv/lib)", "*(/srv/lib/src)", "Write(**/*.py)", "Edit"])
def test_a_rule_that_forbids_holds_in_an_added_folder(rule: str) -> None:
    for mode in Mode:
        rules = (allow("Edit(/srv/**)"), deny(rule))
        assert verdict("edit", Access.WRITE, "/srv/lib/src/a.py", mode, *rules) is Verdict.DENY
    assert verdict("read", Access.READ, "/srv/lib/k", Mode.AUTO, deny("Read(/srv/lib/**)")) is Verdict.DENY
    assert verdict("shell", Access.EXECUTE, "cat /srv/lib/k", Mode.AUTO, deny("Read(/srv/lib/**)")) is Verdict.DENY
    assert verdict("shell", Access.EXECUTE, "rm /srv/lib/k", Mode.AUTO, deny("Write(/srv/lib/**)")) is Verdict.ASK
    assert verdict("grep", Access.READ, "/srv/lib", Mode.AUTO, deny("Read(/srv/lib/**)")) is Verdict.DENY


@for_each(("tool", "access", "subject", "expected"), [
    ("write", Access.WRITE, "src/a.py", Verdict.ALLOW), ("mkdir", Access.WRITE, "build", Verdict.ALLOW),
    ("shell", Access.EXECUTE, "make > log", Verdict.ALLOW), ("git_diff", Access.READ, "", Verdict.ALLOW),
    ("todo_add", Access.NONE, "", Verdict.ALLOW), ("write", Access.WRITE, "/srv/added/a.py", Verdict.DENY),
    ("git_commit", Access.WRITE, "", Verdict.DENY), ("git_add", Access.WRITE, "a.py", Verdict.DENY),
    ("python", Access.EXECUTE, "", Verdict.DENY), ("background", Access.EXECUTE, "b1", Verdict.DENY),
    ("mcp__shop__order", Access.EXECUTE, "shop/order", Verdict.DENY), (PROMOTE_TOOL, Access.WRITE, "x", Verdict.DENY),
    ("fetch", Access.REACH, "http://10.0.0.1/", Verdict.ASK),
])  # fmt: skip
@for_each("rules", [(), (allow("*"), allow("mcp__*"), allow("Python"), allow("git_commit"))])
def test_the_try_mode_allows_what_its_overlay_covers_whatever_rules_allow(
    tool: str, access: Access, subject: str, expected: Verdict, rules: tuple[Rule, ...]
) -> None:
    found = verdict(tool, access, subject, Mode.TRY, *rules)
    assert found is expected or (expected is Verdict.ASK and rules and found is Verdict.ALLOW)


def test_the_try_mode_keeps_deny_and_ask_rules_and_shows_no_secrets() -> None:
    assert verdict("write", Access.WRITE, "src/a.py", Mode.TRY, deny("Write(src/**)")) is Verdict.DENY
    assert verdict("shell", Access.EXECUTE, "make", Mode.TRY, deny("Shell(make*)")) is Verdict.DENY
    assert verdict("shell", Access.EXECUTE, "make", Mode.TRY, parse_rule("Shell(make*)", Effect.ASK, "test")) is Verdict.ASK
    for tool, access, subject in (("read", Access.READ, ".env"), ("shell", Access.EXECUTE, "cat .env")):
        assert decide_all(tool, access, (subject,), Mode.TRY, ()).verdict is Verdict.DENY


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


ALLOW_ALL = (Rule(Effect.ALLOW, "*", "*", "settings"),)


def scope(*texts: str) -> SkillScope:
    return SkillScope("tidy", tuple(parse_rule(text, Effect.ALLOW, "skill tidy") for text in texts))


@for_each(("texts", "tool", "access", "subject", "is_left"), [
    (("Read",), "read", Access.READ, "a.txt", True), (("Read",), "look", Access.READ, "a.png", True),
    (("Read",), "grep", Access.READ, "", False), (("Read(src/**)",), "read", Access.READ, "src/a.py", True),
    (("Read(src/**)",), "read", Access.READ, "b.py", False), (("Write",), "mkdir", Access.WRITE, "x", True),
    (("Write",), "edit", Access.WRITE, "x", False), (("Shell",), "shell", Access.EXECUTE, "rm -rf x; curl y", True),
    (("Shell(git *)",), "shell", Access.EXECUTE, "git status", True),
    (("Shell(git *)",), "shell", Access.EXECUTE, "git status && rm x", False),
    (("Shell(git *)",), "shell", Access.EXECUTE, "git log | tee x", False),
    (("Shell(git *)",), "shell", Access.EXECUTE, "git status $(rm x)", False),
    (("Shell",), "python", Access.EXECUTE, "", False), (("Python",), "python", Access.EXECUTE, "", True),
    (("mcp__time__*",), "mcp__time__now", Access.EXECUTE, "time/now", True),
    (("mcp__time__*",), "mcp__mail__send", Access.EXECUTE, "mail/send", False),
    (("Skill__count",), "skill__count", Access.EXECUTE, "", True), ((), "read", Access.READ, "a.txt", False),
    ((), "todo_add", Access.NONE, "", True), ((), "skill", Access.NONE, "other", True),
])  # fmt: skip
def test_what_a_skill_names_is_left_and_nothing_else(
    texts: tuple[str, ...], tool: str, access: Access, subject: str, *, is_left: bool
) -> None:
    decision = decide_all(tool, access, (subject,), Mode.AUTO, ALLOW_ALL, scopes=(scope(*texts),))
    assert (decision.verdict is not Verdict.DENY) == is_left
    assert is_left or "skill tidy is in use until this turn ends" in decision.why


def test_a_skill_allows_nothing_that_the_user_does_not_and_of_two_both_hold() -> None:
    both = (scope("Write", "Shell"),)
    deny = (Rule(Effect.DENY, "write", "secret/**", "settings"),)
    assert decide_all("write", Access.WRITE, ("secret/x",), Mode.AUTO, deny, scopes=both).verdict is Verdict.DENY
    assert decide_all("write", Access.WRITE, ("x",), Mode.NORMAL, (), scopes=both).verdict is Verdict.ASK
    assert decide_all("shell", Access.EXECUTE, ("touch x",), Mode.NORMAL, (), scopes=both).verdict is Verdict.ASK
    assert decide_all("write", Access.WRITE, ("x",), Mode.PLAN, (), scopes=both).verdict is Verdict.DENY
    two = (scope("Read", "Write"), scope("Read"))
    assert decide_all("read", Access.READ, ("x",), Mode.AUTO, (), scopes=two).verdict is Verdict.ALLOW
    assert decide_all("write", Access.WRITE, ("x",), Mode.AUTO, (), scopes=two).verdict is Verdict.DENY
    some = (scope("Read(src/**)"),)
    assert decide_all("read", Access.READ, ("src/a", "b"), Mode.AUTO, (), scopes=some).verdict is Verdict.DENY


@pytest.mark.parametrize("mode", [Mode.MANUAL, Mode.NORMAL, Mode.AUTO])
def test_a_tool_is_promoted_only_by_a_yes_whatever_is_allowed(mode: Mode) -> None:
    rules = (*ALLOW_ALL, Rule(Effect.ALLOW, PROMOTE_TOOL, "a.py"))
    assert decide_all(PROMOTE_TOOL, Access.WRITE, ("a.py",), mode, rules).verdict is Verdict.ASK
    assert decide_all(PROMOTE_TOOL, Access.WRITE, ("a.py",), Mode.PLAN, rules).verdict is Verdict.DENY
    hidden = (Rule(Effect.DENY, "read", "a.py", "settings"),)
    assert decide_all(PROMOTE_TOOL, Access.WRITE, ("a.py",), mode, hidden).verdict is Verdict.DENY


def test_what_is_forbidden_of_commands_and_files_counts_for_promoted_tools() -> None:
    for rule, verdict in (("Shell", Verdict.DENY), ("Python", Verdict.DENY), ("Read(secret/**)", Verdict.ASK)):
        rules = (parse_rule(rule, Effect.DENY, "settings"), parse_rule("Skill__count", Effect.ALLOW, "settings"))
        assert decide_all("skill__count", Access.EXECUTE, (), Mode.NORMAL, rules).verdict is verdict
    allowed = (parse_rule("skill__count", Effect.ALLOW, "settings"),)
    assert decide_all("skill__count", Access.EXECUTE, (), Mode.NORMAL, allowed).verdict is Verdict.ALLOW
    assert decide_all("skill__count", Access.EXECUTE, (), Mode.PLAN, allowed).verdict is Verdict.DENY
    assert decide_all("skill__other", Access.EXECUTE, (), Mode.NORMAL, allowed).verdict is Verdict.ASK


@for_each(("path", "is_secret"), [
    *((path, True) for path in (
    ".env", "a/.env", ".env.local", ".env.production", ".ENV", "./.env", "a//.env", ".env/", "\uff0eenv", ".en\u200bv", "x.pem",
    "x.key", "id_rsa", "id_rsa.bak", "id_ed25519", "ID_RSA", ".netrc", ".npmrc", ".pypirc", "credentials", "credentials.json",
    "credentials-prod.yaml", "x.p12", "x.pfx", "x.kdbx", "secrets.yaml", "secrets.toml", ".aws/config", "a/.aws/b",
    ".ssh/known_hosts", ".ssh", ".kube/config", ".docker/config.json", "/proc/self/environ", ".git-credentials",
    "home/.ssh/x/y",
    )),
    *((path, False) for path in (
    "", ".", "a.py", ".env.example", ".env.sample", ".env.template", "env", "a.env.py", "key.py", "keys/a.py", "id_rsa.pub",
    "secrets.py", "credentials.ts", "docs/secrets.md", "config.json", ".kube/cache", ".docker/Dockerfile", "environ",
    "README.md", "monkey", "x.pem.md",
    )),
])  # fmt: skip
def test_secret_and_harmless_names(path: str, *, is_secret: bool) -> None:
    assert is_secret_path(path) is is_secret


def test_reading_a_secret_asks_in_every_mode_and_only_a_rule_that_names_it_helps() -> None:
    wide, exact = parse_rule("Read", Effect.ALLOW, ""), parse_rule("Read(.env)", Effect.ALLOW, "")
    for mode in Mode:
        assert decide("read", Access.READ, ".env", mode, ()).verdict is Verdict.ASK
        assert decide("grep", Access.READ, ".env", mode, ()).verdict is Verdict.ASK
        assert decide("read", Access.READ, ".env", mode, (exact,)).verdict is Verdict.ALLOW
        found = decide("grep", Access.READ, ".env", mode, (exact,)).verdict
        assert found is (Verdict.ASK if mode is Mode.MANUAL else Verdict.ALLOW)
        assert decide("read", Access.READ, ".env", mode, (wide,)).verdict is Verdict.ASK
    assert decide("ls", Access.READ, ".ssh", Mode.NORMAL, ()).verdict is Verdict.ALLOW
    everything = (parse_rule("Read(**)", Effect.ALLOW, "settings"),)
    assert decide("read", Access.READ, ".env", Mode.AUTO, everything).verdict is Verdict.ASK
