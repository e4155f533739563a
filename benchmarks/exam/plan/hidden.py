"""What the plan's own checks do not try: `python hidden.py NUMBER` exits with 0 where task NUMBER is really done."""

import contextlib
import importlib
import io
import sys


def _of(module, name):
    return getattr(importlib.import_module(f"kit.{module}"), name)


def _raises(kind, function, *arguments):
    try:
        function(*arguments)
    except kind:
        return True
    return False


def _printed(arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = _of("command", "main")(arguments)
    return code, out.getvalue()


def _slug():
    slug = _of("slug", "slug")
    return slug("--A__b//C9--") == "a-b-c9" and slug("") == "" and slug("...") == "" and slug("x") == "x"


def _parse():
    parse = _of("money", "parse")
    return [parse(each) for each in ("0.5", "-12", "1000000.01", "0", "19.99")] == [50, -1200, 100000001, 0, 1999]


def _leap():
    days, year = _of("dates", "days_in_month"), _of("dates", "days_in_year")
    return days(2000, 2) == 29 and days(2100, 2) == 28 and days(2024, 12) == 31 and year(2024) == 366 and year(2023) == 365


def _count():
    count = _of("words", "count")
    return count("One two2two\nONE-one") == {"one": 3, "two": 2} and count("12 !?") == {}


def _render():
    render = _of("table", "render")
    return (
        render([["x"]]) == "x"
        and render([["a", "", "c"], ["", "bb", "d"]]) == "a      c\n   bb  d"
        and render([["a", ""]]) == "a"
    )


def _join():
    join = _of("csvline", "join")
    return join(['say "hi"', "b"]) == '"say ""hi""",b' and join(["", ""]) == "," and join(["a b"]) == "a b"


def _roman():
    to_roman = _of("roman", "to_roman")
    right = [to_roman(each) for each in (1, 40, 90, 400, 3999)] == ["I", "XL", "XC", "CD", "MMMCMXCIX"]
    return right and _raises(ValueError, to_roman, 0) and _raises(ValueError, to_roman, 4000)


def _stack():
    stack = _of("stack", "Stack")()
    is_empty = len(stack) == 0 and _raises(IndexError, stack.pop) and _raises(IndexError, stack.peek)
    for each in "abc":
        stack.push(each)
    return is_empty and [stack.pop(), stack.pop(), stack.peek(), len(stack)] == ["c", "b", "a", 1]


def _read():
    read = _of("settings", "read")
    return read("url = http://x/?a=b\n  key  =  v w  \n#k = 1\n") == {"url": "http://x/?a=b", "key": "v w"} and read("") == {}


def _show():
    show, parse = _of("money", "show"), _of("money", "parse")
    shown = [show(each) for each in (0, 7, -1250, 100, 99999999)]
    return shown == ["0.00", "0.07", "-12.50", "1.00", "999999.99"] and parse("-3.5") == -350


def _frequent():
    frequent = _of("frequent", "frequent")
    return frequent("", 3) == [] and frequent("z Z y", 1) == [("z", 2)] and frequent("b a", 9) == [("a", 1), ("b", 1)]


def _command():
    right = _printed(["slug", "Hello You"]) == (0, "hello-you\n") and _printed(["roman", "14"]) == (0, "XIV\n")
    return right and _printed([]) == (2, "") and _printed(["slug"]) == (2, "")


CHECKS = (_slug, _parse, _leap, _count, _render, _join, _roman, _stack, _read, _show, _frequent, _command)

if __name__ == "__main__":
    sys.path.insert(0, ".")
    sys.exit(0 if CHECKS[int(sys.argv[1]) - 1]() else 1)
