from __future__ import annotations

from pathlib import Path

from lmtui.store.rule_store import TrustAnswer, read_trust, trust_file, write_trust


def test_an_answer_is_kept_for_its_folder_only_and_a_broken_file_trusts_nothing(tmp_path: Path) -> None:
    write_trust(tmp_path, TrustAnswer("aa", is_trusted=True))
    write_trust(tmp_path / "other", TrustAnswer("bb", is_trusted=False))
    assert read_trust(tmp_path) == TrustAnswer("aa", is_trusted=True)
    assert read_trust(tmp_path / "other") == TrustAnswer("bb", is_trusted=False)
    assert (read_trust(tmp_path / "third"), trust_file().stat().st_mode & 0o777) == (TrustAnswer(), 0o600)
    trust_file().write_text('{"broken')
    assert read_trust(tmp_path) == TrustAnswer()
    trust_file().write_text("[1]")
    assert read_trust(tmp_path) == TrustAnswer()
