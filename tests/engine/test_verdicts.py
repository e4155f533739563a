from __future__ import annotations

from dataclasses import replace

import pytest

from lmtui.core.events import TurnReason
from lmtui.core.messages import Completion, FinishReason, Message, Role, ToolCall
from lmtui.engine.loop_detection import Loop
from lmtui.engine.stop_policy import Continue, Done, Stop, StopPolicy
from tests.sets import for_each


def completion(text: str = "", calls: int = 0, *, problem: str = "", reason: FinishReason = FinishReason.STOP) -> Completion:
    made = tuple(ToolCall(f"c{number}", "read", "{}") for number in range(calls))
    return Completion(Message(Role.ASSISTANT, text, tool_calls=made), reason, None, problem=problem)


CUT = FinishReason.LENGTH


def test_a_call_goes_on_and_words_end_it() -> None:
    watch = StopPolicy()
    assert (watch.judge(completion("I look.", 1)), watch.judge(completion("There are two files."))) == (Continue(), Done())


def test_empty_answers_are_asked_about_until_there_are_too_many() -> None:
    watch = StopPolicy(most_empty=3)
    first, second, third = (watch.judge(completion(text)) for text in ("", "  \n", ""))
    assert isinstance(first, Continue)
    assert "empty" in first.reminder
    assert isinstance(second, Continue)
    assert isinstance(third, Stop)
    assert third.reason is TurnReason.ERROR
    assert "3 times" in third.error


def test_a_call_between_empty_answers_begins_the_count_anew() -> None:
    watch = StopPolicy()
    _ = watch.judge(completion())
    _ = watch.judge(completion("", 1))
    assert isinstance(watch.judge(completion()), Continue)


@for_each(("given", "count", "reason", "words"), [
    (completion("{", problem="like this: …"), 4, TurnReason.ERROR, "/calls"),
    (completion("a long story", reason=CUT), 1, TurnReason.LIMIT, "go on"),
    (completion("", 1, reason=CUT), 2, TurnReason.LIMIT, "LLM_MAX_TOKENS"),
    (completion("no", reason=FinishReason.CONTENT_FILTER), 1, TurnReason.ERROR, "content filter"),
])  # fmt: skip
def test_what_comes_too_often_ends_the_turn_with_the_way_out(
    given: Completion, count: int, reason: TurnReason, words: str
) -> None:
    watch = StopPolicy()
    *before, last = [watch.judge(given) for _ in range(count)]
    assert before == [Continue(given.problem)] * (count - 1)
    assert isinstance(last, Stop)
    assert last.reason is reason
    assert words in last.error


def test_a_problem_beside_calls_that_ran_is_told_too() -> None:
    assert StopPolicy().judge(completion("", 1, problem="the second was none")) == Continue("the second was none")


def test_a_whole_call_between_two_that_were_cut_forgives_the_first() -> None:
    watch = StopPolicy()
    assert [watch.judge(completion("", 1, reason=each)) for each in (CUT, FinishReason.TOOL_CALLS, CUT)] == [Continue()] * 3


def test_a_circle_is_told_and_then_ends_the_turn() -> None:
    told = Loop("circle", "ls, read", 3, "Do something else.")
    assert StopPolicy().judge(completion("", 1), told) == Continue("Do something else.")
    found = StopPolicy().judge(completion("", 1), replace(told, is_over=True))
    assert isinstance(found, Stop)
    assert found.reason is TurnReason.LIMIT
    assert "ls, read" in found.error
    assert "go on" in found.error


def test_a_last_word_ends_the_turn_whatever_came_before_it() -> None:
    over = Loop("idle", "nothing new", 15, "", is_over=True)
    watch = StopPolicy()
    _ = watch.judge(completion("", 1))
    assert watch.judge(completion("It cannot be done."), over) == Done()
    assert isinstance(watch.judge(completion(""), over), Stop)


def test_words_that_claim_what_no_tool_did_are_doubted_once_and_then_noted() -> None:
    watch = StopPolicy("Update a.py.")
    first = watch.judge(completion("I have updated a.py."))
    assert isinstance(first, Continue)
    assert "No tool was called" in first.reminder
    again = watch.judge(completion("The file has been updated."))
    assert isinstance(again, Done)
    assert "No tool ran" in again.note


def test_words_about_what_tools_did_are_believed() -> None:
    watch = StopPolicy()
    _ = watch.judge(completion("", 1))
    assert watch.judge(completion("I have updated a.py.")) == Done()
    assert StopPolicy().judge(completion("Hello! What should be done?")) == Done()


def test_words_about_files_that_nothing_looked_at_ask_for_a_call_of_a_model_that_may_not_be_able_to() -> None:
    said = completion("The files are a.py and b.py.")
    first = StopPolicy("List the files.").judge(said, is_unsure=True)
    assert isinstance(first, Continue)
    assert first.needs_call
    assert StopPolicy("List the files.").judge(said) == Done()
    assert StopPolicy().judge(completion("Once upon a time there was a heron."), is_unsure=True) == Done()


@for_each(("task", "text"), [
    ("Which editor do you like?", "vim; its settings are in the file .vimrc."),
    ("Hello", "Hello! I can read files and run scripts such as build.sh. What is to be done?"),
    ("What is a package.json for?", "The file package.json lists what a project needs."),
    ("How do I read a file in Python?", "Use open(path).read(): the file is closed at the end of a with block."),
    ("Explain what setup.py does.", "setup.py has been replaced by pyproject.toml in most projects."),
    ("Please tell me why files have modes", "So that scripts can be run: chmod +x run.sh."),
    ("Is imp deprecated?", "Yes: it has been deprecated since 3.4 and has been removed in 3.12."),
    ("Which Python is current?", "Python 3.14 is now current."),
])  # fmt: skip
@for_each("is_unsure", [False, True])
def test_an_answer_that_only_mentions_a_file_is_given_once(task: str, text: str, *, is_unsure: bool) -> None:
    assert StopPolicy(task, trusts_words=not is_unsure).judge(completion(text), is_unsure=is_unsure) == Done()


@pytest.mark.parametrize(("task", "text"), [
    ("Create hello.txt", "The file has been created."), ("Fix the bug", "It is now fixed."), ("hi", "I've updated a.py."),
    ("hi", "I will now read a.py."),
])  # fmt: skip
def test_an_answer_that_says_what_was_or_would_be_done_is_doubted(task: str, text: str) -> None:
    assert isinstance(StopPolicy(task).judge(completion(text)), Continue)


def test_answer_to_a_task_about_a_file_is_doubted_once_where_nothing_was_called() -> None:
    watch = StopPolicy("Read notes.txt and tell me the door code.")
    first = watch.judge(completion("The door code is 1234."), is_unsure=True)
    assert isinstance(first, Continue)
    assert first.needs_call
    assert isinstance(watch.judge(completion("The door code is 1234."), is_unsure=True), Done)
    assert isinstance(StopPolicy("How are you?").judge(completion("I am well."), is_unsure=True), Done)
    assert isinstance(StopPolicy("Read notes.txt").judge(completion("It says 1.")), Done)
