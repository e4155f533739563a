# What a developer runs.  Everything works from a fresh clone; `make setup` makes the environment that the rest uses.
PYTHON ?= .venv/bin/python

.PHONY: setup check format lint types contracts test bench battery demo screenshots docs

setup: .venv/.made

.venv/.made: pyproject.toml
	python3 -m venv .venv
	.venv/bin/pip install --quiet --editable '.[test]'
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
	$(PYTHON) -m pytest -n 2

bench: setup
	$(PYTHON) -m benchmarks

battery: setup
	$(PYTHON) -m tests.sandbox.run_battery

demo: setup
	$(PYTHON) -m lmtui demo --headless

screenshots: setup
	$(PYTHON) screenshots/make.py

docs: setup
	$(PYTHON) -m docs.make_keys
