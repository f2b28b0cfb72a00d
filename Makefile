# `make demo` and `make test` need Python 3.11+ and nothing else: each prepares .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# tests start hundreds of processes: each would read all of its modules from source
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-all lint types clean
setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fairlead needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "could not create $(VENV): on Debian and Ubuntu, 'apt-get install python3-venv' adds what is missing"; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $(STAMP)

demo: setup
	$(BIN)/fairlead demo --out demo-out

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not long"

test-all: lint types
	$(BIN)/python -m pytest -n 3 --dist worksteal

clean:
	rm -rf $(VENV) build dist src/*.egg-info
