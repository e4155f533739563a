from __future__ import annotations

import base64
import stat
from collections.abc import Callable
from pathlib import Path

from lmtui.tui.terminal_app import LARGEST_OSC_BYTES, clipboard_program, copy_by_program, keep_in_file, osc_52, run_program
from tests.sets import for_each


def has(*names: str) -> Callable[[str], str | None]:
    return lambda name: f"/usr/bin/{name}" if name in names else None


@for_each(
    ("environ", "there", "program"),
    [
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, ("wl-copy", "xclip"), "wl-copy"),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, ("xclip",), "xclip"),
        ({}, ("xclip", "pbcopy"), "pbcopy"),
        ({}, ("clip.exe",), "clip.exe"),
        ({"TMUX": "/tmp/x"}, ("tmux", "xclip"), "tmux"),
        ({"SSH_CONNECTION": "1", "DISPLAY": ":0"}, ("xclip", "pbcopy"), ""),
        ({"SSH_TTY": "/dev/pts/1", "TMUX": "/tmp/x", "DISPLAY": ":0"}, ("xclip", "tmux"), "tmux"),
        ({}, (), ""),
    ],
)
def test_the_environment_chooses_the_program(environ: dict[str, str], there: tuple[str, ...], program: str) -> None:
    assert clipboard_program(environ, has(*there))[:1] == ((program,) if program else ())


def test_the_sequence_holds_the_text_and_nothing_of_it_as_it_is() -> None:
    sequence = osc_52("a\x1b]0;x\x07ü")
    assert sequence.startswith("\x1b]52;c;")
    assert base64.b64decode(sequence[7:-1]).decode() == "a\x1b]0;x\x07ü"
    plain = osc_52("x")
    wrapped = plain.replace("\x1b", "\x1b\x1b")
    assert osc_52("x", is_in_tmux=True) == f"{plain}\x1bPtmux;{wrapped}\x1b\\"
    assert osc_52("x" * LARGEST_OSC_BYTES)
    assert osc_52("x" * (LARGEST_OSC_BYTES + 1)) == ""


def test_a_program_gets_the_text(tmp_path: Path) -> None:
    assert run_program(("sh", "-c", f"cat > {tmp_path}/got"), "tëxt")
    assert (tmp_path / "got").read_text() == "tëxt"
    assert not run_program(("false",), "x")
    assert not run_program(("no-such-program-here",), "x")


def test_a_program_that_fails_is_made_up_for_by_the_terminal_or_a_file(tmp_path: Path) -> None:
    broken = ("false",)
    assert copy_by_program(broken, "a\nb", has_osc=True, folder=tmp_path) == ("Copied 2 lines", True)
    said, is_good = copy_by_program(broken, "a", has_osc=False, folder=tmp_path)
    assert is_good
    assert str(tmp_path) in said
    (tmp_path / "file").touch()
    assert not copy_by_program(broken, "a", has_osc=False, folder=tmp_path / "file")[1]


def test_a_kept_text_is_the_users_own(tmp_path: Path) -> None:
    path = keep_in_file("secret", tmp_path / "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text() == "secret"
