# make test       set up .venv with the pinned versions (once), then lint, type-check and run every test
# make test-machines  run the tests that depend on arithmetic as other machines would: other instructions, another order
#                 of summation, one and two threads, a random order
# make browser    install Chromium and axe where they are missing, then use the lab in that browser
# make test-cluster   five faults of a Ray cluster on this machine, each at five random moments, and clusters that end
# make docs       build the site from docs/ into build/site, then try its links, tutorials and notebooks
# make proofs     prove every library program at many lengths, and try to get changed programs and models past the proof
# make reproduce  set up .venv (once), repeat the paper's main figure in minutes, write the report below runs/
# make clean      remove the environment and all caches

PYTHON ?= python3
BIN := .venv/bin
# Test processes that run side by side. Tests that share a costly fixture are one group and run in one of them.
JOBS ?= 2

.PHONY: test test-machines test-cluster browser lint types check docs proofs reproduce setup clean

test: setup lint types check

setup: .venv/installed

# The stamp is written last: an interrupted install is done again from the start.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[dev,cluster,docs,gpt2,hub,lab,onnx,proof,sweep,tensorboard]'
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/pyright

check: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --durations=20

# A machine is its instructions (ATEN_CPU_CAPABILITY for torch's own loops, MKL_CBWR for products), its threads, and the
# order in which its tests happen to run. Every run prints what torch computes with; SEED=n repeats an order.
SEED ?= $(shell od -An -N2 -tu2 /dev/urandom)
numeric = $(BIN)/python -m pytest tests -v -m numeric -n $(JOBS) --dist loadgroup --shuffle $(SEED)

test-machines: setup
	ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 $(numeric)
	ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive $(numeric)
	MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1 $(numeric)

test-cluster: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/engine/cluster/test_faults.py -v --moments 5 --shuffle $(SEED)

# Debian's Chromium, and axe, which looks for what people cannot read or reach. Screenshots end up in .browser/screenshots.
AXE := .browser/node_modules/axe-core/axe.min.js
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

browser: setup $(AXE)
	[ -x /usr/bin/chromium ] || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq chromium; }
	POSATTN_BROWSER=1 $(BIN)/python -m pytest tests/browser -v --durations=10

$(AXE):
	mkdir -p .browser
	npm install --silent --no-save --no-fund --no-audit --prefix .browser axe-core@4.14.0

# One folder that works without a server and without a network. Open build/site/index.html.
SITE := build/site

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir $(SITE)
	OMP_NUM_THREADS=1 POSATTN_SITE=$(SITE) $(BIN)/python -m pytest tests/site -v -n $(JOBS) --durations=10

proofs: setup
	$(BIN)/python benchmarks/proofs.py table
	$(BIN)/python benchmarks/proofs.py bounds 4 8 16 32 64
	$(BIN)/python benchmarks/specifications.py changes 64 1024
	$(BIN)/python benchmarks/tampering.py --changes 1000

reproduce: setup
	$(BIN)/posattn run ood-scale --preset quick --task sum --task min --task sort --seeds 1

clean:
	rm -rf .venv .browser .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
