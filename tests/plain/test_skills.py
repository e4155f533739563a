from __future__ import annotations

from tests.plain.test_console import Host, talk
from tests.tui.fake_skills import some_skills, some_tools


def test_skills_are_listed_and_followed() -> None:
    host = Host()
    host.extensions.skills.known, host.extensions.skills.tools = some_skills(), some_tools()
    paper, _ = talk("/skill", "/skills changelog at noon", "/skill deploy", host=host)
    said = "\n".join(paper.said)
    assert f"✓ {'changelog':<24} {'yours':<12} 13 tokens in each request, 1,210 once used" in said
    assert f"? {'deploy':<24} {'this folder':<12} needs approval" in said
    assert f"✓ {'skill__count_words':<24} {'tool':<12} 58 tokens" in said
    assert "error: no skill 'deploy'" in said
    assert host.extensions.skills.begun == [("changelog", "at noon")]
    assert "No skills here." in talk("/skill")[0].said


def test_the_skill_in_use_is_marked_and_ended() -> None:
    host = Host()
    host.extensions.skills.known = some_skills()
    begin = ("/skill changelog now", "/skill write-tests")
    said = "\n".join(
        talk(*begin, "/skill", "/skill off deploy", "/skill off write-tests", "/skill off", "/skill off", host=host)[0].said
    )
    assert f"✓ {'changelog':<24} {'yours':<12} in use; 13 tokens in each request" in said
    assert "error: the skill deploy is not in use" in said
    assert "Skill ended: write-tests\n" in said
    assert "Skill ended: changelog" in said
    assert "error: no skill is in use" in said


def test_a_function_is_promoted_and_half_a_command_says_its_form() -> None:
    host = Host()
    paper, _ = talk("/promote tools/words.py count_words", "/promote words.py", host=host)
    assert host.extensions.skills.wanted == [("tools/words.py", "count_words", "")]
    assert any("/promote FILE FUNCTION" in line for line in paper.said)
