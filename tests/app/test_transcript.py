from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import escape
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lmtui.app.archive import as_html, as_json, as_markdown, as_text
from lmtui.core import events
from lmtui.core.events import Envelope, Event, MessageAdded, SessionOpened, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Role
from tests.sets import for_each

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ATTACK = "</pre><script>alert(1)</script>\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe<img src=x onerror=alert(1)>\"'&`"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def envelopes(*told: Event, session: str = "20260102_030405_abcdef") -> list[Envelope]:
    return [Envelope(number, NOW, session, event) for number, event in enumerate(told, 1)]


def finished(result: str, **fields: object) -> ToolCallFinished:
    values: dict[str, object] = {"call_id": "c1", "tool": "shell", "ok": True, "elapsed_ms": 7} | fields
    return ToolCallFinished(result=result, **values)  # type: ignore[arg-type]  # the fields are those of the event


def everywhere(text: str) -> list[Envelope]:
    """Return a session in which every foreign text is this one."""
    return envelopes(
        SessionOpened(workspace=text, version=text),
        events.SessionRenamed(title=text),
        MessageAdded(role=Role.USER, text=text),
        MessageAdded(role=Role.ASSISTANT, text=text),
        ToolCallStarted(call_id="c1", tool=text, arguments={text: text}, title=text),
        events.ApprovalResolved(approval_id="a1", outcome=events.Outcome.NO, by=text, feedback=text),
        finished(text, tool=text, summary=text),
        events.Notice(level=events.Level.WARNING, text=text),
        events.TurnEnded(turn_id="t", reason=events.TurnReason.ERROR, error=text, elapsed_s=1.0),
        session=text,
    )


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


OUR_TAGS = {"html", "meta", "title", "style", "h1", "h2", "h3", "section", "pre", "code", "details", "summary", "p", "em"}


@example(ATTACK)
@given(st.text(alphabet="<>&\"'`/!-ab \n\x1b[]\x9b") | st.text())
def test_no_text_makes_an_element_of_the_page_and_it_loads_nothing(text: str) -> None:
    page = _Page(as_html(everywhere(text)))
    assert page.tags <= OUR_TAGS
    assert page.attributes <= {"lang", "charset", "class"}
    assert text != ATTACK or "<script>alert(1)</script>" in page.text
    assert not re.search(r"(?:src|href)\s*=|url\(|@import", as_html(everywhere("x")))


@example("![i](http://a)")
@example("```")
@given(st.text(alphabet="<>![]()`~a/= \n") | st.text())
def test_markdown_loads_nothing_and_no_message_hides_the_next_block(text: str) -> None:
    attack = finished("```\n-->\n![i](http://a)")
    for history in (everywhere(text), envelopes(MessageAdded(role=Role.ASSISTANT, text=text), attack)):
        assert _Page(MarkdownIt().render(as_markdown(history))).attributes <= {"href", "class", "title", "start"}


def test_an_export_is_whole_and_names_no_folder_and_no_local_time() -> None:
    begin = SessionOpened(workspace="/home/ann", version="1")
    for write in (as_markdown, as_html):
        shown = write(envelopes(begin, MessageAdded(role=Role.USER, text="hi"), finished("row\n" * 400 + "last")))
        assert "/home/ann" not in shown
        assert "you  2026-01-02 03:04 UTC" in shown
        assert "\nlast" in shown


def test_a_terminal_shows_the_first_lines_of_a_result_and_none_where_it_is_empty() -> None:
    assert as_text(envelopes(finished(""))) == "  ok, 7 ms"
    assert as_text(envelopes(finished("row\n" * 13))) == "    row\n" * 12 + "    … 1 more line\n  ok, 7 ms"


def test_no_control_sequence_and_no_reordering_comes_through() -> None:
    for write in (as_text, as_markdown, as_html):
        shown = write(everywhere(ATTACK))
        assert CONTROLS.search(shown) is None
        assert "<U+202E>" in shown or "&lt;U+202E&gt;" in shown


@for_each(
    "result",
    ["```\n# owned\n```", "`````\n# owned", "``\x1b[0m`\n# owned", "`\u200b``\n# owned", "\x1b[31m```\x1b[0m\n# owned"],
)
def test_a_tool_result_cannot_leave_its_fence(result: str) -> None:
    page = MarkdownIt().render(as_markdown(envelopes(finished(result))))
    assert page.count("<h1>") == page.count("<pre>") == 1
    assert page.endswith("</code></pre>\n")


@for_each("title", ["a`b", "``<img src=x>``", "`", "```"])
def test_a_file_name_cannot_leave_its_code_span(title: str) -> None:
    call = ToolCallStarted(call_id="c", tool="read", arguments={}, title=title)
    assert f"<code>{escape(title)}</code></p>" in MarkdownIt().render(as_markdown(envelopes(call)))


def test_json_keeps_every_event_as_it_was() -> None:
    told = json.loads(as_json(everywhere(ATTACK)))
    assert [each["kind"] for each in told][:2] == ["session_opened", "session_renamed"]
    assert told[1]["title"] == ATTACK
