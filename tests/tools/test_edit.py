from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.tools.edit_file import apply_edit
from lmtui.tools.text import elided_line, without_line_numbers
from tests.sets import for_each
from tests.tools.test_files import REGISTRY, Bench

CODE = "def f(x):\n    if x:\n        return 1\n    return 2\n\ndef g(x):\n    return 3\n"


@for_each(("text", "search", "replace", "expected", "remark"), [
    (CODE, "return 2", "return 4", CODE.replace("return 2", "return 4"), ""),
    ("a = 1  \nb = 2\t\nc = 3\n", "a = 1\nb = 2\n", "a = 9\nb = 8\n", "a = 9\nb = 8\nc = 3\n", "line ends"),
    (CODE, "if x:\n    return 1", "if not x:\n    return 0\n    # done",
     CODE.replace("    if x:\n        return 1\n", "    if not x:\n        return 0\n        # done\n"), "indentation"),
    ("a:\n  b\n", "        a:\n          b", "        a:\n          c", "a:\n  c\n", "indentation"),
    ("\tif x:\n\t\ty()\n", "    if x:\n        y()", "    if x:\n        z()", "\tif x:\n\t\tz()\n", "indentation"),
    ("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n", ""),
    ("a\nb", "b", "c", "a\nc", ""), ("a\n  b", "b\n", "c\n", "a\n  c", "indentation"),
    ("a\nb  \nc\n", "b\nc", "", "a\n", "line ends"),
])  # fmt: skip
def test_what_is_replaced_is_put_right_and_said(text: str, search: str, replace: str, expected: str, remark: str) -> None:
    edited = apply_edit(text, search, replace, newline="\r\n" if "\r" in text else "\n")
    assert edited.text == expected
    assert remark in edited.remark
    assert bool(remark) == bool(edited.remark)


def test_a_miss_shows_the_nearest_region_and_several_places_their_lines() -> None:
    with pytest.raises(ToolError, match=r"3 times \(lines 3, 4, 7\)"):
        apply_edit(CODE, "return", "yield")
    with pytest.raises(ToolError, match="nothing was changed") as caught:
        apply_edit(CODE, "def g(y):\n    return 30\n", "x")
    assert "The nearest is lines 6–7" in str(caught.value)
    assert "    6  def g(x):" in str(caught.value)


@pytest.mark.parametrize(("search", "replace"), [("", "x"), ("same", "same"), (" \n ", "x")])
def test_what_means_nothing_is_refused(search: str, replace: str) -> None:
    with pytest.raises(ToolError):
        apply_edit("same text\n", search, replace)


LINES = st.lists(st.text("ab \t{}", max_size=6), min_size=1, max_size=12)


@given(LINES, st.data(), st.sampled_from(["\n", "\r\n"]))
def test_a_unique_block_is_replaced_and_the_rest_stays_byte_for_byte(
    lines: list[str], data: st.DataObject, newline: str
) -> None:
    numbered = [f"{number:03}|{line}" for number, line in enumerate(lines)]
    text = newline.join(numbered) + newline
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    edited = apply_edit(text, "\n".join(numbered[start:end]), "new\nlines", newline=newline)
    expected = newline.join([*numbered[:start], "new", "lines", *numbered[end:]]) + newline
    assert edited.text == expected


@given(st.text("ab\n ", max_size=40), st.text("ab\n ", min_size=1, max_size=8), st.text("abc\n", max_size=8))
def test_an_edit_either_raises_or_changes_what_it_says(text: str, search: str, replace: str) -> None:
    try:
        edited = apply_edit(text, search, replace)
    except ToolError:
        return
    assert edited.count >= 1
    assert edited.remark or text.count(search) == 1


@for_each("sign", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
def test_signs_that_only_python_takes_for_line_ends_stay_in_their_lines(sign: str) -> None:
    text = f"    a{sign}b\n    c\n    d{sign}\ne\n"
    edited = apply_edit(text, f"a{sign}b\nc\nd{sign}", f"a{sign}B\nc{sign}c\nd{sign}")
    assert edited.text == f"    a{sign}B\n    c{sign}c\n    d{sign}\ne\n"
    assert edited.remark


@pytest.mark.parametrize(
    ("old", "replace", "new"), [(b"a\nb\n", "c\n", b"a\nb\nc\n"), (b"a\r\nb", "c\n", b"a\r\nb\r\nc\r\n"), (b"", "c\n", b"c\n")]
)
async def test_an_edit_with_an_empty_search_appends(old: bytes, replace: str, new: bytes) -> None:
    bench = Bench(a=old)
    result = await bench.call("edit", path="a", search="", replace=replace)
    assert (bench.sandbox.files["a"], result.text) == (new, "ok (appended: search was empty)")


@pytest.mark.parametrize(("has_read", "text"), [(False, "c"), (True, "")])
async def test_an_empty_search_is_refused_where_the_file_was_not_read_or_nothing_is_given(text: str, *, has_read: bool) -> None:
    bench = Bench(a=b"a\n")
    call = REGISTRY.prepare("edit", json.dumps({"path": "a", "search": "", "replace": text}))
    with pytest.raises(ToolError, match="the text to replace is empty"):
        await call.run(replace(bench.context(), knows=lambda _: has_read))
    assert bench.sandbox.files["a"] == b"a\n"


SHOWN = "".join(f"{number:>5}  {line}\n" for number, line in enumerate(CODE.splitlines(), 1))


@for_each(("text", "bare"), [
    (SHOWN, CODE), (SHOWN.replace("    5  \n", "    5\n"), CODE),
    ("4      return 2\n5\n6  def g(x):", "    return 2\n\ndef g(x):"),
    ("1: def f(x):\n2:     if x:\n", "def f(x):\n    if x:\n"), ("1  one\n2  two\n", "1  one\n2  two\n"),
    ("1  def f(x):\n3          return 1\n", "1  def f(x):\n3          return 1\n"),
    ("def f(x):\n2      if x:\n", "def f(x):\n2      if x:\n"), ("", ""),
])  # fmt: skip
def test_copied_line_numbers_go_where_each_line_has_one_that_matches(text: str, bare: str) -> None:
    assert without_line_numbers(text, CODE) == bare


async def test_line_numbers_copied_into_edit_and_write_are_left_out_and_own_numbers_stay() -> None:
    listing = "1  one\n2  two\n3  three\n"
    assert (without_line_numbers(listing, listing), without_line_numbers(listing, "")) == (listing, listing)
    assert without_line_numbers("    1  one\n    2  two\n", "") == "one\ntwo\n"
    bench = Bench(a=CODE.encode(), b=CODE.encode())
    shown, wanted = "    3          return 1\n    4      return 2", "    3          return 9\n    4      return 8"
    await bench.call("edit", path="a", search=shown, replace=wanted)
    await bench.call("write", path="b", content=SHOWN.replace("return 3", "return 7"))
    await bench.call("write", path="new", content=SHOWN)
    assert bench.sandbox.files["a"].decode() == CODE.replace("return 1", "return 9").replace("return 2", "return 8")
    assert bench.sandbox.files["b"].decode() == CODE.replace("return 3", "return 7")
    assert bench.sandbox.files["new"].decode() == CODE


@for_each(("line", "is_elided"), [
    ("# ... rest of the code ...", True), ("    // ... existing code ...", True), ("... (rest of the file unchanged)", True),
    ("/* the rest remains unchanged */", True), ("<!-- other sections here -->", True), ("…  remaining lines", True),
    ("# Other helpers", False), ("    ...", False), ("# rest of the arguments", False), ("x = [1, 2, ...]", False),
])  # fmt: skip
def test_a_line_that_stands_for_others_is_known(line: str, *, is_elided: bool) -> None:
    assert elided_line(f"a = 1\n{line}\n", CODE) == (line.strip() if is_elided else "")
    assert elided_line(f"a = 1\n{line}\n", f"{line}\n") == ""


async def test_a_text_with_a_line_that_stands_for_others_changes_nothing() -> None:
    bench = Bench(a=CODE.encode())
    for tool, more in (
        ("write", {"content": "def f(x):\n# ... rest of the code\n"}),
        ("edit", {"search": "return 1", "replace": "# ... existing code"}),
    ):
        with pytest.raises(ToolError, match="would replace what it stands for"):
            await bench.call(tool, path="a", **more)
    assert bench.sandbox.files["a"].decode() == CODE
    await bench.call("write", path="new", content="# ... rest of the code\n")
    assert "new" in bench.sandbox.files


@for_each(("text", "search", "replace", "expected"), [
    ("f {\n\tif a {\n\t\tb()\n\t}\n}\n", "    if a {\n        b()\n    }",
     "    if a {\n        b()\n        for {\n            c()\n        }\n    }",
     "f {\n\tif a {\n\t\tb()\n\t\tfor {\n\t\t\tc()\n\t\t}\n\t}\n}\n"),
    ("f:\n  if a:\n    b()\n", "    if a:\n        b()", "    if a:\n        b()\n        if d:\n            c()\n    e()",
     "f:\n  if a:\n    b()\n    if d:\n      c()\n  e()\n"),
    ("\tif a {\n\t\tb()\n\t}\n", "if a {\n    b()\n}",
     "if a {\n    if d {\n        b()\n    }\n}", "\tif a {\n\t\tif d {\n\t\t\tb()\n\t\t}\n\t}\n"),
    ("f:\n    if a:\n        b()\n", "\tif a:\n\t\tb()", "\tif a:\n\t\tif d:\n\t\t\tb()",
     "f:\n    if a:\n        if d:\n            b()\n"),
    ("f:\n    g:\n        b()\n", "g:\n    b()", "g:\n    b(1,\n      2)", "f:\n    g:\n        b(1,\n          2)\n"),
    ("all:\n\techo\n", "all:", "all: x\n    date", "all: x\n\tdate\n\techo\n"),
    ("    s = {\n\t\t  x\n", "s = {", "s = {\n  y", "    s = {\n  y\n\t\t  x\n"),
    ("f:\n\ta\n  # c\n", "\ta", "    d", "f:\n\td\n  # c\n"),
    ("f:\n\tif a:\n\t\tb\n", "\t\tb", "        c\n        d", "f:\n\tif a:\n\t\tc\n\t\td\n"),
    ("f:\n\tif a:\n\t\tb\n", "\t\tb", "        if c:\n            d", "f:\n\tif a:\n\t\tif c:\n\t\t\td\n"),
])  # fmt: skip
def test_new_lines_have_the_indentation_of_the_file(text: str, search: str, replace: str, expected: str) -> None:
    assert apply_edit(text, search, replace).text == expected


@for_each(("text", "search", "replace"), [
    ("if a:\n    x = 1\n", f"{' ' * 16}x = 1", f"{' ' * 16}x = 2"),
    ("if a:\n    x = 1\n", f"{' ' * 8}x = 1", f"{' ' * 8}x = 2"),
    ("\tif a {\n\t\tb()\n\t}\n", "if a {\nb()\n}", "if a {\nc()\n}"),
    ("\tif a {\n\t\tb()\n", "    if a {\n        b()", "  if a {\n     b()"),
    ("if a {\n\tb()\n}\n", "b()", "b()\n        c()"),
])  # fmt: skip
def test_a_place_at_another_depth_is_refused(text: str, search: str, replace: str) -> None:
    with pytest.raises(ToolError, match="nothing was changed"):
        apply_edit(text, search, replace)


@for_each(("text", "search", "replace", "expected", "sign"), [
    ("x\u00a0=\u00a01\n", "x = 1", "x = 2", "x\u00a0=\u00a02\n", "U+00A0 (no-break space)"),
    ("re\u0301sume\u0301 = 1\n", "résumé = 1", "résumé = 2", "re\u0301sume\u0301 = 2\n", "U+0301"),
    ("résumé = 1\n", "re\u0301sume\u0301 = 1", "re\u0301sume\u0301 = 2", "résumé = 2\n", "U+0301"),
    ("say “hi” – it’s a\n", "\"hi\" - it's a", "\"hi\" - it's b", "say “hi” – it’s b\n", "U+201C"),
    ("say \"hi\" - a\n", "“hi” — a", "“ho” — a", "say \"ho\" - a\n", "U+201C"),
    ("a\u200bb = 1\r\nc\r\n", "ab = 1\r\nc", "ab = 1\r\nd", "a\u200bb = 1\r\nd\r\n", "U+200B"),
    ("x\u3000= 1\n", "x = 1", "", "\n", "U+3000"),
])  # fmt: skip
def test_characters_that_look_the_same_are_found_kept_and_named(
    text: str, search: str, replace: str, expected: str, sign: str
) -> None:
    edited = apply_edit(text, search, replace, newline="\r\n" if "\r" in text else "\n")
    assert edited.text == expected
    assert sign in edited.remark


def test_look_alikes_in_several_places_and_beside_other_changes_are_refused_by_name() -> None:
    with pytest.raises(ToolError, match=r"2 times \(lines 1, 2\)"):
        apply_edit("a\u00a01\na\u20071\n", "a 1", "b")
    assert apply_edit("a\u00a01\na\u20071\n", "a 1", "a 2", is_all=True).text == "a\u00a02\na\u20072\n"
    with pytest.raises(ToolError, match=r"(?s)nearest.*U\+00A0 \(no-break space\)"):
        apply_edit("    x\u00a0= value(1)\n", "  x = value(2)", "  x = 2")


@for_each(("text", "search", "signs"), [
    ("alpha = 1\n", "alpha = 3", []), ("größe = 1\n", "größe = 3", []), ("a = 'b…'\n", "a = 'b...'", ["It has U+2026"]),
    ("v\u0430lue = 1\n", "value = 1", ["It has U+0430"]), ("value = 1\n", "v\u0430lue = 1", ["The search has U+0430"]),
    ("valu\uff45 = 1\n", "v\u0430lue = 1", ["It has U+FF45", "The search has U+0430"]),
])  # fmt: skip
def test_a_miss_names_the_characters_that_differ_and_no_others(text: str, search: str, signs: list[str]) -> None:
    with pytest.raises(ToolError, match="The nearest is") as caught:
        apply_edit(text, search, "x")
    assert re.findall(r"(?:It|The search) has U\+\w+", str(caught.value)) == signs
