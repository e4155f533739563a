from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.sandbox import docker
from lmtui.sandbox.guest import confinement, protocol

_MESSAGES = st.lists(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=20) | st.booleans(), max_size=4), max_size=5
)


@given(messages=_MESSAGES, cut=st.integers(1, 40))
def test_messages_survive_any_split_of_the_stream(messages: list[dict[str, object]], cut: int) -> None:
    stream = b"".join(protocol.encode(message) for message in messages)
    decoder = protocol.Decoder()
    received = []
    for start in range(0, len(stream), cut):
        received += decoder.feed(stream[start : start + cut])
    assert received == messages


def test_an_oversized_message_is_not_sent() -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.encode({"x": "y" * protocol.MAX_FRAME_BYTES})


_KILL, _ALLOW, _EPERM, _ENOSYS = 0x80000000, 0x7FFF0000, 0x00050001, 0x00050026
_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS = {
    "x86_64": {
        "read": 0, "ptrace": 101, "io_uring_setup": 425, "openat2": 437, "clone3": 435, "chmod": 90, "openat": 257, "clone": 56,
        "ioctl": 16, "socket": 41,
    },
    "aarch64": {
        "read": 63, "ptrace": 117, "io_uring_setup": 425, "openat2": 437, "clone3": 435, "fchmod": 52, "openat": 56,
        "clone": 220, "ioctl": 29, "socket": 198,
    },
}  # fmt: skip
_VERDICTS: list[tuple[str, tuple[int, ...], int]] = [
    ("read", (), _ALLOW), ("ptrace", (), _EPERM), ("io_uring_setup", (), _EPERM), ("openat2", (), _ENOSYS),
    ("clone3", (), _ENOSYS),
    ("chmod", (0, 0o755), _ALLOW), ("chmod", (0, 0o4755), _EPERM), ("fchmod", (0, 0o2755), _EPERM),
    ("fchmod", (0, 0o755), _ALLOW),
    ("openat", (0, 0, 0o100, 0o644), _ALLOW), ("openat", (0, 0, 0o100, 0o4755), _EPERM), ("openat", (0, 0, 0, 0o4755), _ALLOW),
    ("openat", (0, 0, 0o20200000, 0o4755), _EPERM), ("clone", (0x11,), _ALLOW), ("clone", (0x10000000,), _EPERM),
    ("ioctl", (0, 0x5401), _ALLOW), ("ioctl", (0, 0x5412), _EPERM), ("ioctl", (0, 0x541C), _EPERM),
    ("socket", (1,), _ALLOW), ("socket", (2,), _ALLOW), ("socket", (40,), _EPERM),
    ("socket", (17,), _EPERM), ("socket", (38,), _EPERM),
]  # fmt: skip


def test_the_filter_decides_each_call() -> None:
    wrong = [
        (machine, name, arguments)
        for machine, numbers in _CALLS.items()
        for name, arguments, verdict in _VERDICTS
        if name in numbers and _decide(confinement.build_filter(machine), numbers[name], _ARCH[machine], arguments) != verdict
    ]
    assert not wrong


def test_a_foreign_abi_is_killed() -> None:
    program = confinement.build_filter("x86_64")
    assert _decide(program, 0, 0x40000003, ()) == _KILL  # 32-bit
    assert _decide(program, 0x40000000, _ARCH["x86_64"], ()) == _KILL  # x32


def test_the_container_profile_allows_what_programs_need_and_names_no_refused_call() -> None:
    profile = json.loads(docker.PROFILE.read_text())
    plain = set(profile["syscalls"][0]["names"])
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {"read", "openat2", "execve", "futex", "seccomp"} <= plain
    refused = ("mount", "ptrace", "bpf", "unshare", "setns", "io_uring_setup", "keyctl", "clone3", "socket", "userfaultfd")
    assert not plain & {*refused}


def _decide(program: bytes, number: int, architecture: int, arguments: tuple[int, ...]) -> int:
    """Run a filter as the kernel would: a classic BPF machine with the five instructions that it uses."""
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    steps = list(struct.iter_unpack("=HBBI", program))
    at, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                accumulator = struct.unpack_from("=I", data, value)[0]
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")
