from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmtui.core.errors import UsageError
from lmtui.features.memory.proposal_log import FILE, ProposalLog, ReadMark, says_same
from lmtui.features.memory.values import Evidence, MemoryProposal, ProposalKind
from tests.sets import for_each

RULE = "Run the tests with pytest -q tests, not make test"


def proposed(text: str, quote: str = "", session: str = "s1", kind: ProposalKind = ProposalKind.MISTAKE) -> MemoryProposal:
    return MemoryProposal("", kind, text, session=session, evidence=(Evidence(quote or text),))


def texts(inbox: ProposalLog) -> list[str]:
    return [each.text for each in inbox.state().waiting.values()]


@for_each(("one", "other", "is_same"), [
    (RULE, "Tests are run with pytest -q tests rather than make test.", True),
    (RULE, "run THE tests with `pytest -q tests`, not `make test`!", True),
    ("Always use uv for packages", "Please use uv for the packages", True),
    ("Commit messages begin with an area prefix", "Commit messages begin with an area prefix, such as docs", True),
    ("Use pytest, not make test", "Use make test, not pytest", False), ("Never run make docs", "Run make docs", False),
    ("Use tabs", "Use spaces", False), ("The server listens on port 8080", "The server listens on port 9090", False),
])  # fmt: skip
def test_statements_in_other_words_say_the_same_and_others_do_not(one: str, other: str, is_same: bool) -> None:
    assert says_same(one, other) is is_same


def test_what_was_discarded_never_comes_back_nor_its_quote_in_the_same_session(tmp_path: Path) -> None:
    inbox = ProposalLog(tmp_path)
    (first,) = inbox.propose([proposed(RULE, "use pytest directly please")])
    inbox.decide(first.id, is_kept=False)
    for again in (RULE, "Tests are run with pytest -q tests rather than make test"):
        assert not ProposalLog(tmp_path).propose([proposed(again, "something else", session="s2")])
    assert not texts(ProposalLog(tmp_path))
    assert not inbox.propose([proposed("Call the test runner yourself", "use pytest directly, please")])
    assert inbox.propose([proposed("Call the test runner yourself", "use pytest directly, please", session="s2")])


def test_what_is_kept_is_not_proposed_again_a_skill_by_its_name_and_what_is_decided_stays_so(tmp_path: Path) -> None:
    inbox = ProposalLog(tmp_path)
    (first,) = inbox.propose([proposed(RULE)])
    inbox.decide(first.id, is_kept=True)
    assert not inbox.propose([proposed(RULE, session="s2")])
    assert not inbox.propose([proposed("The API needs a key")], ["The API needs a key in LLM_KEY"])
    longer = "The API needs a secret key in the header of each request from the client"
    (second,) = inbox.propose([proposed(longer)], ["The API needs a secret key"])
    inbox.decide(second.id, is_kept=False)
    inbox.decide(second.id, is_kept=True)
    assert second.id not in inbox.state().kept
    with pytest.raises(UsageError, match="already been decided"):
        inbox.find(second.id)
    skill = MemoryProposal("", ProposalKind.SKILL, '---\nname: release\ndescription: "a"\n---\nx\n', name="release")
    assert inbox.propose([skill])
    assert not inbox.propose([MemoryProposal("", ProposalKind.SKILL, "other", name="Release")])


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    inbox = ProposalLog(tmp_path)
    inbox.propose([proposed(RULE)], mark=ReadMark("s1", 100, 7))
    file = tmp_path / FILE
    with file.open("ab") as out:
        out.write(
            b'[]\n{"do":"kept"}\nnull\n\xff\xfe\n{"do":"proposed","proposal":{"id":1}}\n{"do":"discarded","id":{}}\n{"do":"prop'
        )
    assert texts(ProposalLog(tmp_path)) == [RULE]
    inbox.propose([proposed("The API needs a key")])
    assert texts(ProposalLog(tmp_path)) == [RULE, "The API needs a key"]
    assert ProposalLog(tmp_path).state().read["s1"] == ReadMark("s1", 100, 7)


def test_only_its_owner_can_read_it_and_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    ProposalLog(tmp_path / "memory").propose([proposed(RULE)])
    assert stat.S_IMODE((tmp_path / "memory").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "memory" / FILE).stat().st_mode) == 0o600
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="could not write"):
        ProposalLog(tmp_path).propose([proposed(RULE)])
    assert not (tmp_path / "elsewhere").exists()


def test_two_that_propose_at_once_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    def propose(start: int) -> None:
        inbox = ProposalLog(tmp_path)
        for number in range(30):
            inbox.propose([proposed(f"alpha{number} beta{number}"), proposed(f"own{start + number} mark{start + number}")])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(propose, (100, 200)))
    assert len(texts(ProposalLog(tmp_path))) == 90
    assert (tmp_path / FILE).read_text().count('"do":"proposed"') == 90


def test_one_process_reads_at_a_time(tmp_path: Path) -> None:
    with ProposalLog(tmp_path).reading(), pytest.raises(UsageError, match="another lmtui"), ProposalLog(tmp_path).reading():
        pass
    with ProposalLog(tmp_path).reading():
        pass
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="could not write"), ProposalLog(tmp_path / "file").reading():
        pass
