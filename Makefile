# Every target, from nothing to a demo: `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
export FOREWARN_CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/forewarn

KIND := PYTHONPATH=operator:. $(PYTHON) -m tests.kind
STEP := $(KIND).progress
STAGES := $(BIN)/python -m tests.stages

.PHONY: help setup unit soak lint docs format locks tools tools-path cluster image deploy cluster-down integration e2e test demo bench clean distclean torch-env inpod
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.installed ## make .venv with everything in it

CHECK_PYTHON = $(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"error: {sys.executable} is Python {v[0]}.{v[1]}; allowed: 3.11 or newer (make PYTHON=python3.12 …)")'
.PHONY: .python
.python:
	@$(CHECK_PYTHON)

.venv/.installed: locks/dev.txt pyproject.toml
	@$(CHECK_PYTHON)
	@echo "setup: making .venv"
	@$(PYTHON) -m venv .venv
	@$(STEP) "setup: installing $$(grep -c == locks/dev.txt) packages of locks/dev.txt into .venv" \
	  $(BIN)/pip install --disable-pip-version-check --require-hashes -r locks/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@
	@echo "setup: .venv is ready"

unit: setup ## the unit tests (seconds)
	@$(STAGES) unit

soak: setup ## the long forms of the trust tests (an hour)
	@$(BIN)/pytest tests -q -s -m soak

tools: .python ## compile kube-apiserver, etcd, kubectl, kind and helm into FOREWARN_CACHE
	@$(KIND) tools

tools-path: .python ## print the folder that holds them
	@$(KIND) tools-path

cluster: setup ## a cluster: FOREWARN_KUBECONFIG's, else this checkout's own kind cluster
	@$(KIND) up

deploy: setup ## that cluster with the operator's image in it and the chart installed
	@$(KIND) deploy

image: setup ## that cluster with the operator's image in it
	@$(KIND) image

cluster-down: .python ## remove this checkout's kind cluster, and from a foreign one what was put there
	@$(KIND) down

integration: setup ## the tests against a real API server as a plain process (no docker)
	@$(STAGES) integration

TORCH := $(FOREWARN_CACHE)/torch-venv
torch-env: setup ## an environment with torch and its frameworks (CPU use; 7 GB, two minutes), outside the checkout
	@if ! cmp -s locks/torch.txt $(TORCH)/installed.txt; then \
	  $(BIN)/uv venv -q --clear --python $(BIN)/python $(TORCH); \
	  $(STEP) "torch-env: installing $$(grep -c == locks/torch.txt) packages into $(TORCH)" \
	    $(BIN)/uv pip install --python $(TORCH)/bin/python --require-hashes -r locks/torch.txt; \
	  cp locks/torch.txt $(TORCH)/installed.txt; \
	fi; echo "torch-env: $(TORCH) is ready"

inpod: setup ## the in-pod tests with real torch, numpy, Lightning, transformers and MPI, and real kills
	@$(STAGES) inpod

e2e: setup ## the tests on the cluster
	@$(STAGES) e2e

test: setup ## everything: lint, unit, integration, in the pod with torch, end to end; all set-up included
	@$(STAGES)

demo: deploy ## the main job, played and told: warned, withdrawn, warned again, stale, preempted
	@tools/demo

bench: setup tools ## every measurement in one table (AREA=admission: only those)
	@PYTHONPATH=operator:. $(BIN)/python -m tests.bench $(AREA)

lint: setup ## ruff, mypy --strict, import layers, shellcheck, generated docs
	@tools/lint

docs: setup ## write the generated tables in README.md and docs/, and the generated parts of the chart
	@$(BIN)/python tools/generate_docs.py
	@$(BIN)/python tools/generate_chart.py

format: setup ## format the code
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

locks: setup ## write the lock files anew from pyproject.toml
	@$(BIN)/uv pip compile -q pyproject.toml --all-extras --generate-hashes --python-version 3.11 --no-annotate -o locks/dev.txt
	@$(BIN)/uv pip compile -q pyproject.toml --extra operator --extra manifests --extra simulator --generate-hashes --python-version 3.11 --no-annotate -o locks/image.txt
	@$(BIN)/uv pip compile -q locks/inpod-test.in --generate-hashes --universal --python-version 3.9 --no-annotate -o locks/inpod-test.txt
	@$(BIN)/uv pip compile -q locks/torch.in --generate-hashes --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-annotate -o locks/torch.txt

clean: .python ## cluster-down, and remove this checkout's images, .venv, build/, the tools' caches; stop Docker if we started it and it is idle
	@$(KIND) clean
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: .python ## clean, and remove FOREWARN_CACHE (programs, wheels, Docker's data) and the node image
	@$(KIND) distclean
	@$(MAKE) --no-print-directory clean
