# Few verbs; each sets up what it needs. Where packages come from is the environment's business (PIP_*, GOPROXY).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# Skips are failures in CI: a suite that did nothing must not pass.
PLUGINS := $(if $(CI),-p tests.support.plugins)
PYTEST  := $(BIN)/python -m pytest $(PLUGINS)

# More arguments of make test, such as paths.
TESTS ?=

# Test processes start an API server each, so that a file's tests stay together.
PARALLEL := -n auto --dist loadfile

# Tests start Python some hundred times, and containers often forbid it to keep what it has compiled.
export PYTHONDONTWRITEBYTECODE :=

# The first build takes minutes, which no test should be charged for.
BUILD_PROGRAMS = @$(BIN)/python -m testbed.go_programs

# Any Helm will do: make manifests HELM=helm NAMESPACE=dynamo-system. The files that are committed are by this one.
HELM      ?= $(BIN)/python -m testbed.helm
MANIFESTS ?= manifests
NAMESPACE := grove-system
TEMPLATE  := template grove-migrator charts/grove-migrator -n $(NAMESPACE) --kube-version 1.34 --set mode=manifest,target=v0.1.0-alpha.11
RUN_PARTS := $(foreach part,serviceaccount policy rbac jobs,-s templates/$(part).yaml)
PLANNERS  := planner.subjects=[{"kind":"Group","name":"grove-planners","apiGroup":"rbac.authorization.k8s.io"}]

.DEFAULT_GOAL := help
.PHONY: help demo quick test nightly test-all test-upgrade test-wheel coverage lint audit format e2e bench generated manifests lock clean

help: ## show this
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/.runtime ## plan the upgrade of the recorded cluster in examples/
	@PATH="$(abspath $(BIN)):$$PATH" examples/demo.sh

quick: lint ## a minute: lint, and the unit tests and those of the stores; builds nothing
	$(PYTEST) -n auto --dist worksteal tests/unit tests/store

test: $(VENV)/.dev ## the tests, bounded: everything but what is marked slow, upgrade or kind
	$(BUILD_PROGRAMS)
	$(PYTEST) $(PARALLEL) $(TESTS) -m "not slow and not upgrade and not kind"

nightly: $(VENV)/.dev ## what make test leaves out because it is slow
	$(BUILD_PROGRAMS)
	$(PYTEST) -n auto --dist worksteal -m "slow and not upgrade and not kind"

test-all: $(VENV)/.dev ## every test that this machine can run
	$(BUILD_PROGRAMS)
	$(PYTEST)

test-upgrade: $(VENV)/.dev ## real Grove operators from GROVE_OPERATORS_DIR: the upgrades of docs/compatibility.md
	$(BUILD_PROGRAMS)
	$(PYTEST) tests/e2e/lab

e2e: $(VENV)/.dev ## the Job, the chart and upgrades on kind (Docker and the network; or Debian and root)
	$(BIN)/python -m tests.e2e $(PLUGINS) $(E2E)

lint: $(VENV)/.dev ## ruff, mypy, the contracts between packages, the workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/zizmor --offline --quiet .github

audit: $(VENV)/.dev ## known vulnerabilities of what is locked; asks the network
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements/runtime.txt
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements/dev.txt

coverage: $(VENV)/.dev ## branches of hashing, grove and planning that the unit tests and the golden vectors take: all of them
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q $(PLUGINS) tests/unit tests/store tests/golden/vectors
	$(BIN)/coverage report

test-wheel: $(VENV)/.dev ## the unit tests, of the built wheel instead of the checkout
	rm -rf build/wheel && mkdir -p build/wheel/tree
	$(BIN)/python -m hatchling build -t wheel -d build/wheel/dist
	$(PYTHON) -m venv --without-pip build/wheel/venv
	$(BIN)/python -m pip --python build/wheel/venv/bin/python install --quiet --no-deps --no-index build/wheel/dist/*.whl
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > $$(echo build/wheel/venv/lib/python*/site-packages)/dependencies.pth
	git ls-files -z | grep -zv ^migrator/ | xargs -0 cp --parents -t build/wheel/tree
	cd build/wheel/tree && ../venv/bin/grove-migrator --version && ../venv/bin/python -m pytest -q $(PLUGINS) -n auto --dist worksteal tests/unit tests/store

format: $(VENV)/.dev ## let ruff format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## the figures of docs/how-it-works.md
	$(BIN)/python -m benchmarks

generated: manifests ## what is made of the code: docs/cli.md, the tables and the demo in the pages, manifests/; tests compare
	$(BIN)/python -m scripts.cli_reference --write
	$(BIN)/python -m scripts.readme

manifests: $(VENV)/.dev ## manifests/*.yaml from the chart
	$(HELM) $(TEMPLATE) $(RUN_PARTS) > $(MANIFESTS)/job.yaml
	$(HELM) $(TEMPLATE) $(RUN_PARTS) --set from=v0.1.0-alpha.11,target=v0.1.0-alpha.9 > $(MANIFESTS)/revert.yaml
	$(HELM) $(TEMPLATE) -s templates/planner.yaml --set-json '$(PLANNERS)' > $(MANIFESTS)/planner.yaml

lock: $(VENV)/.dev ## requirements/*.txt anew, with the newest versions that pyproject.toml allows
	$(BIN)/python scripts/lock.py --upgrade

clean: ## what these verbs have made, the cache of built Go programs aside
	rm -rf $(VENV) .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

# hatchling comes first and by hash, so that building ourselves fetches nothing by the way.
$(VENV)/.runtime: $(VENV)/pyvenv.cfg requirements/runtime.txt requirements/build.txt pyproject.toml
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@
