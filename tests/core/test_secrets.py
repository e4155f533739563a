from __future__ import annotations

from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import Access, Effect, Mode, Verdict, parse_rule
from tests.sets import for_each


@for_each("path", [
    ".env", "a/.env", ".env.local", ".env.production", ".ENV", "./.env", "a//.env", ".env/", "\uff0eenv", ".en\u200bv", "x.pem",
    "x.key", "id_rsa", "id_rsa.bak", "id_ed25519", "ID_RSA", ".netrc", ".npmrc", ".pypirc", "credentials", "credentials.json",
    "credentials-prod.yaml", "x.p12", "x.pfx", "x.kdbx", "secrets.yaml", "secrets.toml", ".aws/config", "a/.aws/b",
    ".ssh/known_hosts", ".ssh", ".kube/config", ".docker/config.json", "/proc/self/environ", ".git-credentials",
    "home/.ssh/x/y",
])  # fmt: skip
def test_secret_names(path: str) -> None:
    assert is_secret_path(path)


@for_each("path", [
    "", ".", "a.py", ".env.example", ".env.sample", ".env.template", "env", "a.env.py", "key.py", "keys/a.py", "id_rsa.pub",
    "secrets.py", "credentials.ts", "docs/secrets.md", "config.json", ".kube/cache", ".docker/Dockerfile", "environ",
    "README.md", "monkey", "x.pem.md",
])  # fmt: skip
def test_harmless_names(path: str) -> None:
    assert not is_secret_path(path)


def test_reading_a_secret_asks_in_every_mode_and_only_a_rule_that_names_it_helps() -> None:
    wide, exact = parse_rule("Read", Effect.ALLOW, ""), parse_rule("Read(.env)", Effect.ALLOW, "")
    for mode in Mode:
        assert decide("read", Access.READ, ".env", mode, ()).verdict is Verdict.ASK
        assert decide("grep", Access.READ, ".env", mode, ()).verdict is Verdict.ASK
        assert decide("read", Access.READ, ".env", mode, (exact,)).verdict is Verdict.ALLOW
        assert decide("read", Access.READ, ".env", mode, (wide,)).verdict is Verdict.ASK
    assert decide("ls", Access.READ, ".ssh", Mode.NORMAL, ()).verdict is Verdict.ALLOW
