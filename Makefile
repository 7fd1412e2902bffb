# Every target, from nothing to a demo: `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
export FOREWARN_CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/forewarn

.PHONY: help setup unit soak lint docs format locks
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.installed ## make .venv with everything in it

.venv/.installed: locks/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"error: {sys.executable} is Python {v[0]}.{v[1]}; allowed: 3.11 or newer (make PYTHON=python3.12 setup)")'
	@echo "setup: making .venv from locks/dev.txt"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r locks/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@
	@echo "setup: .venv is ready"

unit: setup ## the unit tests (seconds)
	@$(BIN)/pytest tests/unit -q -n auto

soak: setup ## the long forms of the trust tests (an hour)
	@$(BIN)/pytest tests -q -s -m soak

lint: setup ## ruff, mypy --strict, import layers, shellcheck, generated docs
	@tools/lint

docs: setup ## write the generated tables in README.md and docs/ anew
	@$(BIN)/python tools/generate_docs.py

format: setup ## format the code
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

locks: setup ## write the lock files anew from pyproject.toml
	@$(BIN)/uv pip compile -q pyproject.toml --all-extras --generate-hashes --python-version 3.11 --no-annotate -o locks/dev.txt
	@$(BIN)/uv pip compile -q pyproject.toml --extra operator --extra manifests --extra simulator --generate-hashes --python-version 3.11 --no-annotate -o locks/image.txt
