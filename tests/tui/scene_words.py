"""Words of each scene that every screen shows, from 60 columns on: what it is there for must not be cut away."""

from __future__ import annotations

_WORDS = r"""
workbench: assert [Tok('c')] | approval_command: -m build --wheel | approval_edit: Mode normal asks |
approval_effect: ] ask Mara about | switcher: release notes | first_run: Choose the model | help: Toggle plan mode |
approval_long: part-02.tar.gz | approval_edited: -m build --sdist | approval_always: this session and |
approval_why: here: 2 commands | approval_batch: no rule is saved | approval_network: docker, proxy: 3 |
changes: 1 + def test_nested(): | changes_by_file: All of it is | undo: Undo: the last 2 | undo_conflict: Undo: the last 3 |
undone: dimmed messages | rules: Edit(parser/**) | rules_none: "Write(keys/**)" | trust: permission rule |
completion: List skills, use | settings: temperature, 0 to | window_use: about 740 tokens | window_changed: about 200 tokens |
calls_in_window: as text; /calls | calls_changed: calls tools as a | cache: 1,990 read again | cache_none: no request yet |
zoomed: touch the counter. | without_sides: pytest -q tests/test_lexer.py | plan_question: comments, as in |
plan_read: -rf .pytest_cache | plan_grants: Write(README.md) | plan_waits: Alt+D to return |
plan_approved: plan was approved | files: __init__.py | files_found: parser/tests/test_lexer.py | viewer: behind a comment; |
viewer_wrapped: is in the prompt | approval_hunks: f Reject with | changes_by_turn: the old notes. |
changes_against_git: str, depth: int) | start_page: 12 files changed | prompt_paths: compare @lex |
prompt_values: nothing; changes | prompt_history: fail on Windows? | prompt_tokens: #1] and it looks |
prompt_queue: over everything | prompt_paused: Enter to send | prompt_command: git status --short | plan: ask about U+2028 |
agent_chat: things to change, | log_filtered: tool:shell | log_whole: command: pytest | background: assert [Tok('c')] |
switcher_open: release notes | switcher_search: / files | fork: and the original | models: window 4,096 of |
model_loading: loading, 0 s | models_found: / qwco | model_role: reviews changes; | model_roles: llama3.2:3b; new |
model_examined: writes 23 tokens | jobs: 13:05: blocked | jobs_away: 3 times: waiting |
jobs_none: From the prompt: | jobs_in_plan: Sat 14 Mar 14:02 | mcp: mcp-git 1.28.0, | mcp_broken: command. Give it |
mcp_waiting: Let this server | mcp_tools: TOOLS OF git | mcp_none: MCP servers yet. | mcp_changed: 1 changed: Enter |
mcp_changes: + added: forward | mcp_form: Name of the | mcp_form_choice: A company | mcp_form_sent: name: Lovelace & |
trusted: TOKEN, may reach | trust_too_early: to the end first | trust_answered: server, 1 skill; | hooks: hook PostToolUse |
file_commands: What I did since | skills: WebSearch, which | skills_broken: not allowed here |
skills_read: name="changelog"> | skills_remove: The model can no | batch: ask for a reading | loop_stopped: ! stopped early: |
chat_search: N previous | chat_search_line: How could comments | chat_copy_mode: Esc leave | chat_call: text: line 0 of |
chat_below: Shell: pytest -q | checks_red: check --no-cache | checks_green: before the change |
checks_findings: is imported from | attempts: Best: all checks | attempts_working: 2 done, 2 running |
attempts_used: add() in calc.py | attempts_none: /attempts 3 TASK | effect_hunk_dropped: of 3 hunks kept |
effect_deletions: binary, empty or | effect_review: n discard all | pipeline: #28 Nested comments |
pipeline_list: The column counts | pipeline_findings: attempt 3 | pipeline_none: /pipeline PLAN.md |
pipeline_beside: assert [Tok('c')] | projects: 1 failed task, 2 | batch_tasks: also changed by |
batch_none: yet. Type /batch | pipeline_plans: Which plan? | usage: 720k prompt (78% | memory_inbox: again: pytest -q |
memory_web: allow at most 60 | memory_instruction: AGENTS.md after | memory_folder: line and column, |
memory_everywhere: an area prefix | memory_none: here; nothing is | memory_find: "nested comments" |
agents: Background agents | models_pool: model server on
"""
WORDS = dict(each.strip().split(": ", 1) for each in _WORDS.split("|"))
