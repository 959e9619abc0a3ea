# `make demo` and `make test` need nothing prepared. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CACHE := $(or $(DTJ_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dtj)
PYTHON ?= python3
TESTBED := PYTHONPATH=testbed/src $(PYTHON) -m dtj_testbed
BIN := .venv/bin
UV := UV_CACHE_DIR=$(CACHE)/uv $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt
PYPROJECTS := pyproject.toml constraints.txt $(wildcard */pyproject.toml)
DISTRIBUTIONS := api operator cli testbed trainer_image
# two end-to-end tests at a time: each runs four ranks
E2E_WORKERS ?= 2
NAMESPACE := dtj-system

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

##@ The two commands

demo: install .venv/tools ## train a GPT with DDP on a real cluster, and show it
	@eval "$$($(TESTBED) env)"; $(BIN)/python demo/run.py

test: prepare ## unit, api, trainer and end-to-end tests
	@$(MAKE) test-unit test-api test-chaos test-trainer test-e2e

prepare: .venv/bin/uv ## everything that lint and tests need, fetched and built side by side
	@$(MAKE) -j2 .venv/torch install

##@ Tests, one layer each

lint: .venv/torch ## style, types, import rules, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@cmp crds/dtj.dev_distributedtrainingjobs.yaml charts/dtj/files/crd.yaml || { echo "run: make generate"; exit 1; }

test-unit: .venv/torch ## pure, seconds
	$(BIN)/pytest tests/unit -n 2 -q
	$(BIN)/pytest --doctest-modules api/src operator/src cli/src trainer_image/src -q

test-api: .venv/tools ## the operator against a real API server, no nodes
	$(TESTBED) build --level api
	$(BIN)/pytest tests/api tests/testbed -n 2 -q

test-chaos: .venv/tools ## the operator interrupted in all ways, a sample
	$(TESTBED) build --level api
	$(BIN)/pytest tests/chaos -q

chaos: .venv/tools ## interrupted at every write and by seed, about 15 minutes (DTJ_CHAOS_SEEDS=100-119 DTJ_CHAOS_ROUNDS=3)
	$(TESTBED) build --level api
	DTJ_CHAOS=whole $(BIN)/pytest tests/chaos -v --log-cli-level INFO --timeout 3600

test-trainer: .venv/torch ## the trainer: real processes over gloo
	$(BIN)/pytest tests/trainer tests/equivalence -q

equivalence: .venv/torch ## every strategy beside one process, as a table, about 10 minutes (ONLY="fsdp")
	@$(BIN)/python -m tests.equivalence --only "$(ONLY)"

test-e2e: install .venv/tools ## real nodes, containers, DNS, volumes
	@eval "$$($(TESTBED) env)"; $(BIN)/pytest tests/e2e --ignore=tests/e2e/nodes -n $(E2E_WORKERS) --dist loadgroup -v
	@eval "$$($(TESTBED) env)"; $(BIN)/pytest tests/e2e/nodes -v

##@ Benchmarks

bench-trainer: .venv/torch ## the training loop beside a bare one, about 8 minutes (BENCH="--ranks 1 2")
	$(BIN)/python -m benchmarks.trainer.loops $(BENCH)

bench-operator: .venv/tools ## the operator beside JobSet, PyTorchJob and a bare client; BENCH="--quick" for a short one
	$(TESTBED) build --level peers
	$(BIN)/python -m benchmarks.operator $(BENCH)

##@ The cluster

cluster-up: ## a two-node kind cluster, with or without Docker
	@$(TESTBED) up

cluster-down: ## delete it; builds stay cached
	@$(TESTBED) down

cluster-status: ## what runs, and where its kubeconfig is
	@$(TESTBED) status

env: ## shell exports: eval "$$(make env)"
	@$(TESTBED) env
	@echo 'export PATH=$$PATH:$(CURDIR)/.venv/bin # kubectl dtj'

images: ## the cluster, and in its registry the images of the sources as they are
	@$(TESTBED) up --images

install: images ## helm install the operator, with the images just built
	@eval "$$($(TESTBED) env)"; helm upgrade --install dtj charts/dtj --namespace $(NAMESPACE) --create-namespace \
	  --set image.repository=$${DTJ_OPERATOR_IMAGE%:*},image.tag=$${DTJ_OPERATOR_IMAGE##*:} \
	  --set trainerImage.repository=$${DTJ_TRAINER_IMAGE%:*},trainerImage.tag=$${DTJ_TRAINER_IMAGE##*:} \
	  --wait --timeout 2m --hide-notes > /dev/null
	@echo "the operator is ready in namespace $(NAMESPACE)"

clean-cluster: ## everything that runs, gone
	@$(TESTBED) down

clean-cache: ## every cached build, gone too
	@$(TESTBED) clean
	rm -rf $(CACHE)/uv .venv

##@ The repository

generate: .venv/tools ## copy the CRD into the chart, and make the reference page from it
	cp crds/dtj.dev_distributedtrainingjobs.yaml charts/dtj/files/crd.yaml
	$(BIN)/python docs/generate_reference.py

constraints: .venv/bin/uv ## renew the pinned versions of everything that is installed
	UV_CACHE_DIR=$(CACHE)/uv $(BIN)/uv pip install --quiet --upgrade --python $(BIN)/python --group dev $(addprefix -e ,$(DISTRIBUTIONS))
	$(BIN)/uv pip freeze --python $(BIN)/python --exclude-editable | grep -vE '^(uv|pip|setuptools)==' > constraints.txt

.venv/bin/uv:
	@$(TESTBED) prerequisites
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet "uv>=0.8,<1"

.venv/tools: $(PYPROJECTS) | .venv/bin/uv
	@echo "installing the development tools into .venv"
	@$(UV) --group dev -e api -e operator -e cli -e testbed
	@touch $@

.venv/torch: $(PYPROJECTS) .venv/tools
	@echo "installing torch into .venv (3 GB to fetch the first time, about two minutes)"
	@$(UV) -e trainer_image
	@touch $@

.PHONY: constraints help demo test prepare lint test-unit test-api test-chaos chaos test-trainer test-e2e cluster-up \
	cluster-down cluster-status env images install clean-cluster clean-cache generate bench-operator bench-trainer equivalence
