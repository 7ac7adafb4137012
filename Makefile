# The two commands of a newcomer are `make grid` and `make test`; each one sets up .venv first.
# Needed beforehand: Python 3.11 or newer with its venv module, make, a C compiler. `make preflight` says what is missing.

VENV := .venv
BIN := $(VENV)/bin
SERVICES := .venv-services
AUDIT := .venv-audit
SOURCES := pyproject.toml meson.build $(shell find tuner workers -type f ! -name '*.pyc' 2>/dev/null)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Set where Python runs in containers: then each process of pytest rewrites the asserts of all tests again, 10 s of CPU.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help grid test test-ci test-full costs services check lint format wheel wheel-aarch64 sbom audit licences docs reference pictures preflight clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

grid: STUDY ?= crash-processor-$(shell date +%Y%m%d-%H%M%S).tuner.db
grid: $(VENV)/.installed  ## measure the built-in crash processor on this box, about three minutes
	$(BIN)/tuner grid --quick --study "$(STUDY)" $(OPTIONS) || [ $$? -eq 5 ]  # 5: ranked, but weaker than asked
	$(BIN)/tuner export "$(STUDY)" --into RUNBOOK.md

# pytest takes two tests per core at a time: those with processes of their own mostly wait (of five seconds one is CPU's),
# each with a lock, a folder and a server of its own. Tests that look at cores, clocks or load run last, one at a time.
# What runs where, and why: CONTRIBUTING.md.
WORKERS := $(shell n=$$(( 2 * $$(nproc) )); echo $$(( n > 12 ? 12 : n )))
# OpenBLAS: its threads would wait for cores that other workers of pytest compute on, and burn CPU time while they do.
PYTEST := OPENBLAS_NUM_THREADS=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest
PARALLEL := -n $(WORKERS) --dist worksteal
# where tests that start processes are: each worker of pytest saves 3 s by not reading the others
WITH_PROCESSES := tests/contract tests/e2e tests/integration
# pythons of pyenv, newest first, for nox
PYENVS = versions=$$(pyenv versions --bare 2>/dev/null | sort -rV | paste -sd: -); export PYENV_VERSION="$${versions:-$$PYENV_VERSION}"

# $(call beside,COMMAND,LOG,TESTS): both at once; what COMMAND printed comes after the tests, and both have to succeed.
define beside
@$(1) >$(2) 2>&1 & other=$$!; trap "kill $$other" INT TERM; \
$(3); tests=$$?; wait $$other; ended=$$?; cat $(2); [ $$tests -eq 0 ] && [ $$ended -eq 0 ]
endef

test: lint  ## linters, types, and every test that is cheap: what a change can break, in four minutes
	$(call beside,$(BIN)/mypy,$(VENV)/mypy.log,$(PYTEST) $(PARALLEL) -m "not costly and not services and not alone and not full")

# What .ci/run adds to `make test`.
test-ci: $(VENV)/.installed-dev $(SERVICES)/.installed $(AUDIT)/.installed  ## the costly tests, real services, the other Pythons
	$(call beside,$(PYENVS); nice -n 5 "$(CURDIR)/$(BIN)/nox" --no-error-on-missing-interpreters -t ci,$(VENV)/nox.log,$(PYTEST) $(PARALLEL) -m "costly and not services and not alone and not full")
	$(PYTEST) $(PARALLEL) -m "services and not alone and not full" $(WITH_PROCESSES) tests/services
	$(PYTEST) -m "alone and not full" $(WITH_PROCESSES) tests/services

test-full: lint $(SERVICES)/.installed $(AUDIT)/.installed  ## everything there is, within an hour
	$(BIN)/mypy
	$(call beside,$(PYENVS); nice -n 5 "$(CURDIR)/$(BIN)/nox" --no-error-on-missing-interpreters -t full,$(VENV)/nox.log,$(PYTEST) $(PARALLEL) $(COSTS) -m "not services and not alone")
	$(PYTEST) $(PARALLEL) $(COSTS) -m "services and not alone" $(WITH_PROCESSES) tests/services
	$(PYTEST) $(COSTS) -m "alone" $(WITH_PROCESSES) tests/services

costs:  ## tests/costs.tsv again: what each test costs, by running everything
	$(MAKE) test-full COSTS=--record-costs
	$(PYTEST) --collect-only -q --record-costs >/dev/null  # takes away the rows of tests that are gone

services: $(SERVICES)/.installed  ## .venv-services: celery, gunicorn and the other services that tests run for real

check: lint  ## linters, types, import directions
	$(BIN)/mypy

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## let the formatter do it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# When the sources were last changed: by git, or in an sdist by what git said then. What is built carries this time.
CHANGED = $${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)}

# An sdist is made of what git tracks: one that is unpacked has no git, and gives the wheel alone.
SDIST_TOO = $$([ -e .git ] || echo --wheel)
wheel: $(VENV)/.dev  ## sdist and wheel of what is committed into dist/, the same bytes wherever they are built
	$(call build_wheel,$(SDIST_TOO))

# Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross. The wheel has no Python of its own, so one of this host builds it.
wheel-aarch64: $(VENV)/.dev  ## the wheel for 64-bit ARM, by a cross compiler
	export _PYTHON_HOST_PLATFORM=linux-aarch64; \
	$(call build_wheel,$(SDIST_TOO) "-Csetup-args=--cross-file=$(CURDIR)/requirements/aarch64-linux-gnu.ini")

# $(call build_wheel,OPTIONS): builds into dist/, and tags the wheel by what its programs need.
define build_wheel
umask 022; export SOURCE_DATE_EPOCH="$(CHANGED)" PATH="$(CURDIR)/$(BIN):$$PATH"; rm -f dist/proctuner-*-linux_*.whl; \
$(BIN)/python -m build --no-isolation --skip-dependency-check $(1) && \
$(BIN)/python requirements/tag_wheel.py dist/proctuner-*-linux_*.whl
endef

sbom: wheel $(AUDIT)/.installed  ## the wheel's bill of materials into dist/, as CycloneDX
	export SOURCE_DATE_EPOCH="$(CHANGED)"; version=$$($(BIN)/python -c 'import tuner; print(tuner.__version__)'); \
	$(BIN)/python requirements/sbom.py dist/proctuner-$$version-*_$$(uname -m).whl >dist/proctuner-$$version.cdx.json && \
	$(AUDIT)/bin/python requirements/sbom_is_valid.py dist/proctuner-$$version.cdx.json

audit: $(AUDIT)/.installed  ## known faults in the locked packages, where that can be had
	$(AUDIT)/bin/python requirements/audit.py

licences: $(VENV)/.dev  ## requirements/licences.md again, from the locks and what is installed
	$(BIN)/python requirements/licences.py

docs: reference  ## the pages as a site in site/, which needs nothing from anywhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

reference: $(VENV)/.installed-dev  ## docs/reference/ again, from the code
	PYTHONPATH="$(CURDIR)" $(BIN)/python docs/reference/make.py

pictures: $(VENV)/.installed-dev  ## the README's pictures again, of a simulated study; needs Chromium
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/pictures/make.py

preflight:
	@deploy/preflight.sh >/dev/null

# The virtual environment, the locked packages, then tuner itself with its C part. Stamps say what is done.
$(VENV)/.run: requirements/run.txt requirements/build.txt deploy/preflight.sh
	python=$$(deploy/preflight.sh) && "$$python" -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements/run.txt -r requirements/build.txt
	touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	touch $@

define install_tuner
PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pip install --quiet --no-deps --no-build-isolation --force-reinstall .
touch $(VENV)/.installed
endef

$(VENV)/.installed: $(VENV)/.run $(SOURCES)
	$(install_tuner)

$(VENV)/.installed-dev: $(VENV)/.dev $(SOURCES)
	$(install_tuner)
	touch $@

$(SERVICES)/.installed: requirements/services.txt deploy/preflight.sh
	python=$$(deploy/preflight.sh) && "$$python" -m venv --clear $(SERVICES)
	$(SERVICES)/bin/pip install --quiet --require-hashes -r requirements/services.txt
	touch $@

$(AUDIT)/.installed: requirements/audit.txt deploy/preflight.sh
	python=$$(deploy/preflight.sh) && "$$python" -m venv --clear $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --require-hashes -r requirements/audit.txt
	touch $@

clean:  ## take away what was built here
	rm -rf $(VENV) $(SERVICES) $(AUDIT) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .nox .import_linter_cache
