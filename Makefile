# What a developer runs.  Everything works from a fresh clone; `make setup` makes the environment that the rest uses.
PYTHON ?= .venv/bin/python

.PHONY: setup check format lint types contracts test full guards bare bench projects battery kills exam exam-plan unseen demo screenshots docs

setup: .venv/.made

.venv/.made: pyproject.toml
	python3 -m venv --upgrade-deps .venv
	.venv/bin/pip install --quiet --editable '.[dev]'
	touch $@

check: setup lint types contracts test

format: setup
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

lint: setup
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .

types: setup
	$(PYTHON) -m mypy

contracts: setup
	$(PYTHON) -c "from importlinter.cli import lint_imports_command as run; run()"

test: setup
	$(PYTHON) -m pytest -n 4

# Every backend, escape, size of a picture and kill, each guard broken once, and the figures in their light form.  It needs Docker
# with the sandbox image, bubblewrap, tmux, Chromium and git.
full: setup
	LMTUI_REQUIRE_SANDBOX=1 $(PYTHON) -m pytest -n 4 -m "full or not full"
	$(PYTHON) -m tests.guards
	$(PYTHON) -m benchmarks --light

# Break each of the guards once, and see which test fails.
guards: setup
	$(PYTHON) -m tests.guards

# The README's two lines without any of that.
bare:
	tests/bare.sh

bench: setup
	$(PYTHON) -m benchmarks

projects: setup
	$(PYTHON) -m benchmarks.projects

battery: setup
	$(PYTHON) -m tests.sandbox.run_battery
	$(PYTHON) -m tests.sandbox.races
	$(PYTHON) -m tests.sandbox.races --backend docker

# Ten small tasks on a model of yours: make exam URL=http://127.0.0.1:8080 MODEL=qwen2.5-coder-1.5b
exam: setup
	$(PYTHON) -m benchmarks.exam --url "$(URL)" --model "$(MODEL)" --runs 3

# A plan of twelve tasks on a model of yours, by the pipeline and as one conversation.
exam-plan: setup
	$(PYTHON) -m benchmarks.exam.planned --url "$(URL)" --model "$(MODEL)"

# Tasks and repairs that nobody has seen, with fresh seeds: make unseen URL=http://127.0.0.1:8080
unseen: setup
	$(PYTHON) -m benchmarks.exam.generated tasks --url "$(URL)" --count 100
	$(PYTHON) -m benchmarks.exam.generated repairs --url "$(URL)" --count 20

demo: setup
	$(PYTHON) -m lmtui demo --headless

screenshots: setup
	$(PYTHON) screenshots/make.py

docs: setup
	$(PYTHON) -m docs.make_events
	$(PYTHON) -m docs.make_keys
	$(PYTHON) -m docs.make_settings
	$(PYTHON) -m docs.make_tools

# Kill a long session at each of its durable events (about 300, a quarter of an hour), and a run with a goal at 60 of them, and look
# at what the next life makes of it.
kills: setup
	$(PYTHON) -m tests.killing.battery
	$(PYTHON) -m tests.killing.goal
