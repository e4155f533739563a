"""Words of each scene that every screen shows, from 60 columns on: what it is there for must not be cut away."""

from __future__ import annotations

_WORDS = r"""
workbench: assert [Tok('c')] | approval_command: -m build --wheel | approval_edit: Mode normal asks |
switcher: release notes | first_run: Choose the model | help: Toggle plan mode | approval_long: part-02.tar.gz |
approval_edited: -m build --sdist | approval_always: everywhere | approval_why: It would run here |
approval_batch: no rule is saved | changes: 1 + def test_nested(): | undo: Undo last 2 steps? | undone: dimmed messages |
rules: Edit(parser/**) | trust: permission rule | trusted: TOKEN, may reach | completion: List skills, use |
settings: temperature, 0 to | attempts: Best: all checks | chat_search: N previous |
chat_call: text: line 0 of | hooks: hook PostToolUse | checks_red: check --no-cache | approval_hunks: n Reject |
changes_against_git: str, depth: int) | approval_effect: ] ask Mara about | effect_review: n Discard all |
files: __init__.py | files_found: test_lexer.py | viewer: comment |
batch_tasks: also changed by | jobs: 13:05: blocked | mcp: mcp-git 1.28.0, | mcp_tools: Tools of git | mcp_form: Name of the |
memory_inbox: again: pytest -q | skills: WebSearch, which |
usage: 720k tokens read | models: window 4,096 of | model_roles: llama3.2:3b; new | pipeline: #28 Nested comments |
plan_question: 1. Count how deep | plan_read: -rf .pytest_cache | plan_grants: Write(README.md) | plan_waits: Set aside · F3 |
start_page: 12 files changed | prompt_paths: compare @lex | prompt_tokens: #1] and it looks | prompt_queue: over everything |
plan: count the depth | agent_chat: things to change, | log_filtered: pytest |
switcher_open: release notes | fork: and the original | window_use: re-reads 740
"""
WORDS = dict(each.strip().split(": ", 1) for each in _WORDS.split("|"))
