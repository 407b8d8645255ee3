# Needs python3 with its venv module, and git. Everything else goes into .venv.

PYTHON ?= python3
MODEL ?= isis85
SEEDS ?= 0:10000
SECONDS ?= 60

VENV := .venv
BIN := $(VENV)/bin
# -qq: pip says nothing unless it fails
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
INSTALL_SELF := $(PIP) install --no-deps --no-build-isolation --editable .

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-net lint format lock campaign fuzz bench clean

help:  ## Show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 14

# Stamps live in the venv, so that they go when it goes. What dev installs includes
# the core at the same versions: a venv moves from one to the other and back.

$(VENV)/.made:
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.core: requirements/core.txt pyproject.toml | $(VENV)/.made
	@echo "Installing covey into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/core.txt
	@$(INSTALL_SELF)
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/.made
	@echo "Installing covey and its tools into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(INSTALL_SELF)
	@touch $(VENV)/.core $@

$(VENV)/.fuzz: requirements/fuzz.txt $(VENV)/.dev
	@echo "Installing the fuzzer into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/fuzz.txt
	@touch $@

demo: $(VENV)/.core  ## Install covey and watch five processes agree
	@$(BIN)/covey demo
	@echo "To have covey at hand: source $(BIN)/activate"

test: $(VENV)/.dev  ## Set everything up and run the tests
	$(BIN)/pytest -n auto
	@echo "There are also tests that need root, ip and nft: make test-net"

# Exit status 5 of pytest: no test was selected.
test-net: $(VENV)/.dev  ## Run the tests that need root, ip and nft (installs those two with apt-get)
	@if ! (command -v ip && command -v nft) > /dev/null; then \
	    apt-get -qq update && apt-get -qq install --yes iproute2 nftables > /dev/null; \
	fi
	$(BIN)/pytest -m net || test $$? -eq 5

lint: $(VENV)/.dev  ## Check style, format, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## Repair style and format where a tool can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command 'make lock'

lock: $(VENV)/.dev  ## Pin the newest versions that pyproject.toml allows, with hashes
	$(COMPILE) pyproject.toml --group build -o requirements/core.txt
	$(COMPILE) pyproject.toml --group dev --extra trace --extra spark -c requirements/core.txt -o requirements/dev.txt
	$(COMPILE) --group fuzz -c requirements/dev.txt -o requirements/fuzz.txt

campaign: $(VENV)/.dev  ## Run many random scenarios; MODEL=isis85 SEEDS=0:10000 unless told otherwise
	$(BIN)/python -m tests.campaign --model $(MODEL) --seeds $(SEEDS)

fuzz: $(VENV)/.fuzz  ## Feed bytes to every decoder, each for SECONDS=60 unless told otherwise
	@set -e; for target in $(subst /,.,$(basename $(filter-out %/__init__.py,$(wildcard tests/fuzz/*.py)))); do \
	    echo "$$target"; $(BIN)/python -m $$target -max_total_time=$(SECONDS); \
	done

bench: $(VENV)/.dev  ## Measure packets per second, simulated and on real sockets
	$(BIN)/python bench/sim.py
	$(BIN)/python bench/net.py

clean:  ## Remove the venv and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
