# make test       set up .venv with the pinned versions (once), then lint, type-check and run every test
# make clean      remove the environment and all caches

PYTHON ?= python3
BIN := .venv/bin
# pyright checks in the background of nothing: two cores, two test processes.
JOBS ?= 2

.PHONY: test lint types check setup clean

test: setup lint types check

setup: .venv/installed

# The stamp is written last: an interrupted install is done again from the start.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[dev]'
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/pyright

check: setup
	$(BIN)/python -m pytest -n $(JOBS)

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
