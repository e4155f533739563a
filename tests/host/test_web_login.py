from __future__ import annotations

from lmtui.host.web import LOCKED_S, MOST_TRIES, AccessControl

NAMES = frozenset({"127.0.0.1:8000", "localhost:8000"})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_link_opens_once_and_the_pin_as_often_as_it_is_given() -> None:
    door = AccessControl(NAMES, "246810")
    token = door.token
    assert door.is_open_to(door.try_key(token))
    assert not door.try_key(token)
    assert door.is_open_to(door.try_key("246810"))
    assert door.is_open_to(door.try_key("246810"))


def test_without_a_pin_no_text_is_one() -> None:
    door = AccessControl(NAMES)
    assert not door.try_key("")
    assert not door.is_open_to("")


def test_too_many_wrong_keys_lock_it_for_a_while() -> None:
    clock = Clock()
    door = AccessControl(NAMES, "246810", clock)
    for _ in range(MOST_TRIES):
        assert not door.try_key("wrong")
    assert door.is_locked
    assert not door.try_key("246810")
    clock.now += LOCKED_S
    assert door.try_key("246810")


def test_what_is_no_key_is_refused_whatever_it_is() -> None:
    door = AccessControl(NAMES, "246810")
    _ = door.try_key(door.token)
    for text in ("\udcff", "a\ud800", "\0", "ä" * 300):
        assert (door.try_key(text), door.is_open_to(text)) == ("", False), text


def test_only_pages_of_ours_are_ours() -> None:
    door = AccessControl(NAMES)
    assert all(door.is_own_origin(each) for each in ("http://127.0.0.1:8000", "http://LOCALHOST:8000"))
    names = ("127.0.0.1:8001", "127.0.0.1:8000.evil.example", "127.0.0.1:8000@evil.example", "[")
    assert not any(door.is_own_origin(each) for each in (*(f"http://{name}" for name in names), "null", ""))
