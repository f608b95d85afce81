# Telesto. `make help` lists the targets. Everything lives in .venv and telesto-data; nothing else is touched.

SHELL := /bin/sh
PY := .venv/bin/python
TELESTO := .venv/bin/telesto
DATA_DIR ?= telesto-data
PORT ?= 7001
FILE ?=
SIZE ?= small
DATABASE ?= single
POSTGRES ?=
WORK ?= queues
MINUTES ?= 10
OUT ?= telesto-bench/quick-$(shell date -u +%Y%m%d-%H%M%S)
MYPY := .venv/bin/mypy --strict --explicit-package-bases --namespace-packages

.DEFAULT_GOAL := help
.PHONY: help run demo test check docs format generate verify unit faults fuzz bench audit lock clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/server.stamp ## Start the service with its own PostgreSQL (DATA_DIR=telesto-data PORT=7001)
	@$(TELESTO) serve --data-dir $(DATA_DIR) --port $(PORT)

demo: .venv/server.stamp ## Ship a text file through two middlewares and check that each line came once (FILE=...)
	@$(TELESTO) demo $(FILE)

test: check unit ## Run every check and the whole test suite (POSTGRES=15: what depends on the release, on that one)

check: .venv/dev.stamp verify docs ## Lint, types, layers, generated files, SQL headers, the site
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	$(MYPY) -p telesto
	$(MYPY) tools/checks tools/codegen tools/documentation
	MYPYPATH=examples:examples/asyncio_service:examples/jobs $(MYPY) examples
	.venv/bin/lint-imports
	$(PY) -m tools.checks

docs: .venv/docs.stamp ## Build the documentation as a site in site/; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

format: .venv/dev.stamp ## Format the code
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

generate: .venv/dev.stamp ## Generate packets, errors, calls of procedures and docs/reference/protocol.md from what declares them
	$(PY) -m tools.codegen

verify: .venv/dev.stamp ## Fail when a generated file is not what `make generate` gives
	$(PY) -m tools.codegen --verify

unit: .venv/dev.stamp .venv/docs.stamp ## Run the test suite only, or with POSTGRES=15 those of database and middleware on that release
ifeq ($(POSTGRES),)
	$(PY) -m pytest -n 2
else
	$(PY) -m pytest -n 2 --postgres $(POSTGRES) tests/db
	$(PY) -m pytest -n 2 --postgres $(POSTGRES) tests/middleware
endif

faults: .venv/dev.stamp ## Kill, stop and cut everything under load, from a random seed (WORK=queues SIZE=small DATABASE=single)
	$(PY) -m tests.faults.run --work $(WORK) --size $(SIZE) --database $(DATABASE)

fuzz: .venv/dev.stamp ## Send a service of its own what nobody would send, from a random seed (MINUTES=10)
	$(PY) -m tests.fuzz.run --minutes $(MINUTES)

bench: .venv/dev.stamp ## Measure every kind of work and other message queues beside, once and short (OUT=... ARGS="--set NAME=VALUE")
	$(TELESTO) bench run quick --out $(OUT) $(ARGS)
	$(TELESTO) bench peers --seconds 1 --repetitions 1

audit: .venv/dev.stamp ## Look for known vulnerabilities in requirements.lock, and warn
	$(PY) -m pip install --quiet uv
	-.venv/bin/uvx --quiet pip-audit --requirement requirements.lock --no-deps --disable-pip --progress-spinner off

lock: .venv/dev.stamp ## Write requirements.lock anew from pyproject.toml
	$(PY) -m pip install --quiet uv
	.venv/bin/uv pip compile --upgrade --universal --all-extras --no-header --no-emit-index-url pyproject.toml -o requirements.lock

clean: ## Remove the environment and caches; the data directory stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info build dist site

.venv/%.stamp: pyproject.toml requirements.lock tools/make_environment
	@tools/make_environment $*
	@touch $@
