from __future__ import annotations

from pathlib import Path

from lmtui.app.key_protection import key_redactor
from lmtui.config import Config
from lmtui.core.sanitize import REDACTED

KEY = "sk-proj-0123456789abcdefXYZ"


def test_keys_of_settings_and_environment_are_known() -> None:
    redactor = key_redactor(Config(api_key=KEY), {"OPENAI_API_KEY": KEY[::-1]})
    assert redactor.text(f"{KEY} {KEY[::-1]}") == f"{REDACTED} {REDACTED}"


def test_a_key_that_is_kept_in_a_file_is_known_too(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("sk-0123456789abcdef\n")
    path.chmod(0o600)
    assert "0123" not in key_redactor(Config(api_key=f"file:{path}"), {}).text("it is sk-0123456789abcdef")
    assert not key_redactor(Config(api_key=f"file:{tmp_path}/none"), {})
