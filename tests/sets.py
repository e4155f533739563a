"""A set of values as one test: every value is tried, and one failure at the end names all that failed, with the reasons."""

from __future__ import annotations

import inspect
import json
import reprlib
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import pytest
from hypothesis import settings


class Late:
    """A module that few tests need, and that takes each worker a second and 50 MB: loaded by its first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks whether it is a fixture
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


Test = Callable[..., Any]
Depth = TypeVar("Depth")
_LONGEST = 400  # letters that are shown of a value, and of a reason
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _LONGEST


def depth(quick: Depth, full: Depth) -> Depth:
    """Return how much of a large set is tried: the second where `make full` runs, as hypothesis draws more there too."""
    return full if settings().max_examples > 12 else quick


def encodings() -> list[str]:
    """Return the vocabularies that prices are counted in; the second takes a minute's worth of memory for the same faults."""
    return depth(["cl100k_base"], ["cl100k_base", "o200k_base"])


def tokens(encoding: str, *texts: str) -> list[int]:
    """Count the tokens of texts in a process of its own: a vocabulary never gives its 50 MB back."""
    code = "import json, sys; from lmtui.models.tokens import count_tokens; print([*map(count_tokens, *json.load(sys.stdin))])"
    asked = json.dumps([texts, [encoding] * len(texts)])
    counted = subprocess.run([sys.executable, "-c", code], input=asked, capture_output=True, text=True, check=True)
    return list(json.loads(counted.stdout))


def few(values: Iterable[Depth]) -> list[Depth]:
    """Return the first, the middle and the last of some values, and all of them where `make full` runs."""
    every = list(values)
    return every if len(every) <= 3 else depth([every[0], every[len(every) // 2], every[-1]], every)


def for_each(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each of some values, as `pytest.mark.parametrize` would, but within one test.

    A value that fails stops no other. Each has a `tmp_path` of its own, and what it does to `monkeypatch` is undone
    behind it; other fixtures are shared by all values.
    """
    known = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_case(known, value) for value in values]

    def decorate(test: Test) -> Test:
        own = inspect.signature(test)

        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures = _Failures(test)
            for (name, case), arguments in zip(cases, _each(cases, fixtures), strict=True):
                with failures.of(name, case):
                    test(**arguments)
            failures.show()

        @wraps(test)
        async def run_async(**fixtures: Any) -> None:
            failures = _Failures(test)
            for (name, case), arguments in zip(cases, _each(cases, fixtures), strict=True):
                with failures.of(name, case):
                    await test(**arguments)
            failures.show()

        chosen: Test = run_async if inspect.iscoroutinefunction(test) else run
        left = [parameter for name, parameter in own.parameters.items() if name not in known]
        vars(chosen)["__signature__"] = own.replace(parameters=left)  # what is left are fixtures
        return chosen

    return decorate


def _case(names: Sequence[str], value: Any) -> tuple[str, dict[str, Any]]:
    name = ""
    if isinstance(value, type(pytest.param())):
        name, value = str(value.id or ""), value.values if len(names) > 1 else value.values[0]
    return name, dict(zip(names, value, strict=True)) if len(names) > 1 else {names[0]: value}


def _each(cases: Sequence[tuple[str, dict[str, Any]]], fixtures: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for number, (_, case) in enumerate(cases):
        with pytest.MonkeyPatch.context() as patch:
            own: dict[str, Any] = {}
            if "tmp_path" in fixtures:
                own["tmp_path"] = Path(fixtures["tmp_path"]) / f"case{number}"
                own["tmp_path"].mkdir()
                patch.setenv("LMTUI_HOME", str(own["tmp_path"] / "home"))
            if "monkeypatch" in fixtures:
                own["monkeypatch"] = patch
            yield {**fixtures, **own, **case}


class _Failures:
    """Keeps what failed instead of raising it."""

    def __init__(self, test: Test) -> None:
        self._file = inspect.getfile(inspect.unwrap(test))
        self._name, self._case, self._tried = "", dict[str, Any](), 0
        self._failed: list[str] = []

    def of(self, name: str, case: dict[str, Any]) -> _Failures:
        self._name, self._case, self._tried = name, case, self._tried + 1
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception | pytest.fail.Exception):
            return False
        name = self._name or ", ".join(f"{key}={_SHORT.repr(part)}" for key, part in self._case.items())
        lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == self._file]
        self._failed.append(f"{name}\n    line {lines[-1] if lines else 0}: {type(error).__name__}: {str(error)[:_LONGEST]}")
        return True

    def show(self) -> None:
        __tracebackhide__ = True
        assert self._tried, "a set without values tests nothing"
        if self._failed:
            pytest.fail(f"{len(self._failed)} of {self._tried} values:\n" + "\n".join(self._failed), pytrace=False)
