# make demo    see the product work, on databases of its own
# make test    lint, types and every test
# make lint    ruff and mypy alone
# make bench   measure against pg_dump and pg_restore
# make lock    resolve the lock files anew
#
# Everything is installed into ./.venv from the hashed lock files, and only when they change.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
comma := ,
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
JOBS ?= 2
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench lock clean
MAKEFLAGS += --no-print-directory

help:
	@sed -n 's/^# \{0,1\}//;1,/^$$/p' Makefile

demo: $(VENV)/.runtime
	@$(BIN)/python -m demo

test: lint
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.runtime
	$(BIN)/python -m bench $(ARGS)

lock: $(VENV)/.dev
	$(BIN)/python scripts/lock.py

clean:
	rm -rf $(VENV) .cache bench/out dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The virtual environment, what the product needs, and what its tests need besides. A stamp is written last, so an
# install that was cut off is done again.
$(BIN)/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "error: Python 3.11 or newer is needed$(if $(PYTHON),$(comma) which $(PYTHON) is not); name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.runtime: $(BIN)/python requirements.txt requirements-build.txt pyproject.toml
	@echo 'installing what requirements.txt pins'
	@$(PIP) install -qq --require-hashes --only-binary :all: -r requirements-build.txt
	@$(PIP) install -qq --require-hashes --only-binary :all: -r requirements.txt
	@$(PIP) install -qq --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	@echo 'installing what requirements-dev.txt pins'
	@$(PIP) install -qq --require-hashes --only-binary :all: -r requirements-dev.txt
	@touch $@
