from __future__ import annotations

from datetime import UTC, timedelta

from lmtui.core import events
from lmtui.core.events import Envelope
from lmtui.core.messages import Role
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.router import DIRECT_EVENTS, SessionView, tail_start
from tests.tui.driving import running
from tests.tui.fakes import START, FakeClock, FakeHost, FakeSession
from tests.tui.lines.stage import screen_lines


def long_session(turns: int = 400) -> FakeSession:
    session = FakeSession("20260314_140299_abc123", clock=FakeClock())
    for number in range(turns):
        session.begin_turn(f"question {number}")
        session.say(f"answer {number}", thinking="why", thinking_s=1)
        session.start_call(f"c{number}", "shell", f"run {number}")
        session.finish_call(f"c{number}", "shell", result=f"one\ntwo {number}\nthree\nfour")
        if number % 50 == 3:
            session.emit(events.Notice(level=events.Level.ERROR, text=f"notice {number}"))
        session.end_turn()
    return session


def whole(session: FakeSession) -> Transcript:
    transcript = Transcript(zone=UTC)
    for envelope in session.history():
        transcript.apply(envelope)
    return transcript


def texts(transcript: Transcript) -> list[str]:
    transcript.document.set_width(60)
    return [
        "".join(text for text, _ in line) for at in range(len(transcript.document)) for line in transcript.document.lines(at)
    ]


def test_the_end_of_a_long_session_is_drawn_first_and_then_all_of_it() -> None:
    session, transcript = long_session(), Transcript(zone=UTC)
    feed = SessionView(session, lambda _: None)
    feed.panels = (transcript,)
    feed.draw()
    assert feed.is_loading
    assert not SessionView(long_session(3), lambda _: None).is_loading
    assert 0 < len(transcript.document) < 200
    assert "answer 399" in "\n".join(texts(transcript))
    session.begin_turn("one more")
    feed.draw()
    assert "one more" in "\n".join(texts(transcript))
    while not feed.load(0.002):
        assert len(transcript.document) < 200
    assert texts(transcript) == texts(whole(session))


def test_the_first_part_begins_with_a_turn() -> None:
    history = long_session().history()
    assert len(history) > DIRECT_EVENTS
    assert isinstance(history[tail_start(history)].event, events.TurnStarted)
    talk = [Envelope(n, START + timedelta(seconds=n), "s", events.MessageAdded(role=Role.USER, text="x")) for n in range(9000)]
    assert tail_start(talk) == 9000 - 150


async def test_a_reader_keeps_his_place_while_the_rest_loads_behind() -> None:
    host = FakeHost()
    session = long_session(1500)
    async with running(host) as driver:
        host.opened[session.id] = session
        _ = await driver.app.sessions.open(session.id)
        await driver.pilot.pause(0.01)
        feed, transcript = driver.view, driver.transcript
        await driver.until(lambda: transcript.size.height > 0 and len(transcript.document) > 0)
        transcript.scroller.move(-20)
        before = screen_lines(transcript)
        assert feed.is_loading
        await driver.until(lambda: not feed.is_loading)
        await driver.settle()
        assert len(transcript.document) > 3000
        assert screen_lines(transcript) == before
        transcript.action_move("home")
        await driver.settle()
        assert "question 0" in "\n".join(screen_lines(transcript))
        current = driver.app.workbench.panes.current
        assert current is not None
        assert current.log.source.total() == 1500
