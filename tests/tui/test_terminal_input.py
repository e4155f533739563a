from __future__ import annotations

from collections.abc import Callable
from random import Random

from textual import events

from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.terminal_input import END, IDLE_S, START, TerminalInput, paste_text
from tests.sets import for_each
from tests.tui.driving import Driver
from tests.tui.fuzz_terminal_input import REPLIES, Terminal, check_paste, check_random, check_replies, sent
from tests.tui.one_app import Cases
from tests.tui.scenes import COMMAND, COMMAND_FIELDS

cases = Cases()


def pasted(content: str) -> str:
    """Return the text of a paste that is the only event."""
    (event,) = sent([f"{START}{content}{END}"], 0).events
    assert isinstance(event, events.Paste)
    return event.text


@for_each(
    ("content", "text"),
    [
        ("look \x1b\x15!touch x #\r", "look ␛␕!touch x #\n"),
        ("x\x1b!hello\r", "x␛!hello\n"),
        ("x \x1b\x11\x11 y", "x ␛␑␑ y"),
        ("a\x1b[13ub\x1b[27;2;13~c\x1b[106;5ud\r\ne", "a\nb\nc\nd\ne"),
        ("\x1b[97ub\x1b[99;;67u\x1b[65;2u\x1b[27;2;33~\x1b[9u", "abCA!\t"),
        ("\x1b[1;31mred\x1b[0m \x1b]8;;http://a\x1b\\link\x1b]8;;\x07", "red link"),
        ("\x1b]unfinished\ntext \x1bPq", "␛]unfinished\ntext ␛Pq"),
        (f"a{START}b\x1b[A\x1b[5~\x1b[57423u\x1b[200~c", "abc"),
        ("\x00\x07\x7f\x9b201~!x", "␀␇␡<U+009B>201~!x"),
        (f"a{END}!touch x\r{START}b", "a!touch x\nb"),
        (f"a{END}\x11\x11{END}b", "a␑␑b"),
        ("😀 é\ud800", "😀 é\ufffd"),
        ("x" * 3_000_000, "x" * 3_000_000),
    ],
)
def test_a_paste_is_text_whatever_it_holds(content: str, text: str) -> None:
    assert pasted(content) == text


def test_a_paste_without_its_end_comes_and_gives_the_keyboard_back() -> None:
    terminal = Terminal()
    terminal.send(f"{START}!touch x\r", IDLE_S + 1)
    terminal.send("y\r\x1b[A more", 60)
    terminal.send("\x1b[I", 60)
    terminal.send(f"\rrest{END}k", 60)
    assert (terminal.pasted, terminal.keys) == ("!touch x\ny\n more\nrest", ["k"])
    terminal.send(f"{START}a", 60)
    terminal.send("b", 60)
    assert (terminal.pasted[-1], terminal.keys) == ("a", ["k", "b"])


@for_each(
    ("sequence", "keys"),
    [
        ("\x1b[104:72;2u", ["shift+h"]),
        ("\x1b[104:72;2;72u", ["H"]),
        ("\x1b[104;1:1u", ["h"]),
        ("\x1b[104;2:3u", []),
        ("\x1b[0;;229u", ["å"]),
        ("\x1b[27;2;13~", ["shift+enter"]),
        ("\x1b[27;2;65~", ["A"]),
        ("\x1b[1114112u\x1b[55296;1u\x1b[97;;55296:99999999u\x1b[;;u", ["a"]),
        (f"\x1b[{'9' * 5000}u\x1b[<{'9' * 5000};1;1M\x1b[48;{'9' * 5000};1;1;1t", []),
        ("\x1b[1;5A\x1bOP\x1b[[B\x1b[3$\x1b[15~\x1b[Z", ["ctrl+up", "f1", "f2", "shift+delete", "f5", "shift+tab"]),
        ("\x1b\x1b[A\x1bh\x1b\r\x1b", ["escape", "up", "alt+h", "alt+enter", "escape"]),
        (f"{END}\x1b]11;rgb:0/0/0\r\x1b]1\x1b[Aa", ["enter", "up", "a"]),
    ],
)
def test_keys_of_every_protocol_arrive_and_odd_ones_are_harmless(sequence: str, keys: list[str]) -> None:
    assert sent([sequence], 0).keys == keys


def test_a_resize_keeps_to_sizes_that_can_be_drawn() -> None:
    terminal = sent(["\x1b[48;40;120;0;0t", "\x1b[<35;5;5M", "\x1b[48;0;0;0;0t", "\x1b[48;99999;99999;9;9t"], 0)
    assert [(each.size.width, each.size.height) for each in terminal.events if isinstance(each, events.Resize)] == [(120, 40)]


@for_each(
    ("check", "seed"),
    [(check, seed) for check, count in ((check_random, 150), (check_paste, 40), (check_replies, 60)) for seed in range(count)],
)
def test_whatever_is_cut_anywhere_a_paste_is_one_text_and_a_late_reply_no_key(
    check: Callable[[Random], None], seed: int
) -> None:
    check(Random(seed))


def post(driver: Driver, text: str) -> None:
    now_s = 0.0
    reader = TerminalInput(lambda: now_s)
    for message in reader.feed(text):
        driver.app.post_message(message)
    while reader.wait_s is not None:
        now_s += reader.wait_s
        for message in reader.tick():
            driver.app.post_message(message)


@cases
async def the_draft_outlives_replies_pastes_and_odd_keys(driver: Driver) -> None:
    await driver.press(*"draft ")
    for reply in (*REPLIES, "\x1b[104:72;2;72u", f"{START}\x1b\x15!touch x\r\x1b\x11\x11{END}", f"{START}open"):
        if not reply.startswith("\x1b[48"):  # the pilot's screen has a size of its own
            post(driver, reply)
    await driver.settle()
    assert driver.app.workbench.prompt.text == "draft H␛␕!touch x\n␛␑␑open"


@cases
async def a_paste_never_answers_a_question(driver: Driver) -> None:
    driver.host.session.ask("a1", COMMAND, **COMMAND_FIELDS)
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    await driver.settle()
    post(driver, f"{START}y\x1by\r\x1b[121u\x1b[13u\x1b[A\x1b{END}")
    await driver.settle()
    assert not driver.host.session.answers
    assert not isinstance(driver.app.screen, ConsentDialog)
    assert driver.app.workbench.prompt.text == "y␛y\ny\n␛"


def test_the_text_of_a_paste_is_made_in_linear_time() -> None:
    for piece in ("\x1b[", "\x1b]", "\x1b[1;", "\x1b[27;", "\x1b[ ", "\x1b[<-"):
        assert len(paste_text(piece * 100_000)) < 1_000_000
