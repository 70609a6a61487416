# `make demo` and `make test` do all the set-up they need; only Python 3.11 or later, pip, make and git are assumed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Many small matrices on a few shared cores: BLAS threads fight each other, so tests and benchmarks use one.
one_thread := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Neighbouring tests share what they make, so each worker begins with half of the files and takes over from the other when it is done.
two_workers := -n 2 --dist worksteal

.PHONY: setup nats faketime demo test test-slow test-exhaustive test-models fuzz faults mutants lowest lint check bench bench-federated bench-parity bench-deployment soak clean
.DEFAULT_GOAL := check

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $@

# A package of Debian, unpacked into the current folder; where the lists of packages are not there yet, they are fetched first.
debian = { apt-get download --quiet=2 $(1) 2>/dev/null || { apt-get update --quiet=2 && apt-get download --quiet=2 $(1); }; } >/dev/null 2>&1 && dpkg -x $(1)_*.deb . && rm $(1)_*.deb

# The server of a relay, for tests: the one on the path, else Debian's, unpacked and not installed, so that no unit is left enabled.
NATS := $(VENV)/nats
nats: setup
	@command -v nats-server >/dev/null || test -x $(NATS)/usr/sbin/nats-server || \
	  { mkdir -p $(NATS) && cd $(NATS) && $(call debian,nats-server); } || \
	  echo "nats-server is missing, and tests of the relay will fail: install a release of it, so that it is on the PATH."

# A library that lets a process see another time, for tests: Debian's, unpacked and not installed.
FAKETIME := $(VENV)/faketime
faketime: setup
	@test -e $(FAKETIME)/usr || { mkdir -p $(FAKETIME) && cd $(FAKETIME) && $(call debian,libfaketime); } || echo "libfaketime is missing, and one test of clocks will be left out."

demo: setup
	$(BIN)/sottovoce demo

test: setup nats
	$(one_thread) $(BIN)/python -m pytest $(two_workers) -m "not slow and not exhaustive and not models"

test-slow: setup nats faketime
	$(one_thread) $(BIN)/python -m pytest $(two_workers) -m slow

# Audits of every combination of algorithm, noise, law and observer that has a guarantee: seven minutes on two quiet cores.
test-exhaustive: setup
	$(one_thread) $(BIN)/python -m pytest $(two_workers) -m exhaustive

# Models of Flax, Equinox and Haiku, and Optax between exchanges, with the packages themselves, in an environment of their own.
MODELS := .venv-models
test-models:
	test -x $(MODELS)/bin/python || $(PYTHON) -m venv $(MODELS)
	$(MODELS)/bin/python -m pip install --quiet --editable '.[models]' pytest hypothesis mypy --constraint constraints.txt
	$(one_thread) $(MODELS)/bin/python -m pytest -m models tests/models

# Mutated files and command lines over every command, most of them in one process; 150 of them are also in the slow suite. A case that
# fails is printed with its number: make fuzz FUZZ="--seed 0 --case 17"
FUZZ ?= --seed 0 --cases 2000
fuzz: setup
	$(one_thread) PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ)

# Plants every fault of tools/faults.toml in a copy of the tree and asks the test named for it: a quarter of an hour on two quiet cores.
faults: setup nats
	$(BIN)/python tools/planted_faults.py

# Installs the lowest versions that pyproject.toml allows into an environment of its own, and runs a part of the tests: some five minutes.
lowest: nats
	$(one_thread) $(PYTHON) tools/lowest_versions.py

# A sample of small changes to accounting/, each shown to the tests of its file: an hour. Cosmic Ray is needed for nothing else.
mutants: setup
	$(BIN)/python -m pip install --quiet 'cosmic-ray>=8.4,<9'
	$(one_thread) $(BIN)/python tools/mutants.py

# Type parameters in brackets and the statement `type`, which Python 3.11 cannot read.
later_syntax := UP040,UP046,UP047,UP049

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff check --target-version py313 --extend-ignore $(later_syntax) .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.13
	$(BIN)/lint-imports
	$(BIN)/python tools/shape.py

check: lint test

bench: setup nats
	$(one_thread) $(BIN)/python benchmarks/engine.py
	$(one_thread) $(BIN)/python benchmarks/accounting.py
	$(one_thread) $(BIN)/python benchmarks/gossip.py
	$(one_thread) $(BIN)/python benchmarks/walks.py
	$(one_thread) $(BIN)/python benchmarks/gopa.py variance
	$(one_thread) $(BIN)/python benchmarks/gopa.py million
	$(one_thread) $(BIN)/python benchmarks/samplers.py
	$(one_thread) $(BIN)/python benchmarks/store.py
	$(one_thread) $(BIN)/python benchmarks/transport.py
	$(one_thread) $(BIN)/python benchmarks/six_processes.py

# Installs Flower and pfl into environments of their own; some ten minutes.
bench-federated: setup
	$(one_thread) $(BIN)/python benchmarks/federated.py

# Sixteen parties as processes on this machine; some five minutes.
bench-deployment: setup nats
	$(one_thread) $(BIN)/python benchmarks/deployment.py

# Eight parties as processes, 2,000 rounds and a hundred faults; some five minutes. make soak SOAK="--seed 2 --rounds 500 --faults 25"
SOAK ?=
soak: setup nats
	$(one_thread) $(BIN)/python benchmarks/soak.py $(SOAK)

# Installs diffprivlib, and the scikit-learn that it needs, into an environment of its own; some ten minutes.
bench-parity: setup
	$(one_thread) $(BIN)/python benchmarks/parity.py

clean:
	rm -rf $(VENV) $(MODELS) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
