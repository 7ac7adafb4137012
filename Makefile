# The two commands of a newcomer are `make grid` and `make test`; each one sets up .venv first.
# Needed beforehand: Python 3.11 to 3.13 with its venv module, make, a C compiler. `make preflight` says what is missing.

VENV := .venv
BIN := $(VENV)/bin
SERVICES := .venv-services
AUDIT := .venv-audit
SOURCES := pyproject.toml meson.build $(shell find tuner workers -type f ! -name '*.pyc' 2>/dev/null)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Set where Python runs in containers: then each process of pytest rewrites the asserts of all tests again, 10 s of CPU.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help grid test test-all services check format wheel sbom audit licences docs reference pictures preflight clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

grid: STUDY ?= crash-processor-$(shell date +%Y%m%d-%H%M%S).tuner.db
grid: $(VENV)/.installed  ## measure the built-in crash processor on this box, about three minutes
	$(BIN)/tuner grid --quick --study "$(STUDY)" $(OPTIONS) || [ $$? -eq 5 ]  # 5: ranked, but weaker than asked
	$(BIN)/tuner export "$(STUDY)" --into RUNBOOK.md

# Tests that only compute share the cores. Those with processes of their own mostly wait (of five seconds one is CPU's):
# five at a time, on two cores too, each with a box lock, a folder and a server of its own. Those that look at cores, clocks
# or load, or take the cores from all others, go last, alone.
WITH_PROCESSES := tests/contract tests/e2e tests/integration
test: check  ## linters, types, every test but the long ones and those of real services
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -n logical --maxprocesses 8 --dist worksteal -m "not integration and not long and not services"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -n 5 --dist worksteal -m "integration and not alone and not long and not services" $(WITH_PROCESSES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -m "alone and not long and not services" $(WITH_PROCESSES)

# The long ones, three at a time: some compute, some wait. nox takes what they leave of the cores, and is shown when both
# have ended. Real services start many processes, each on more of a core: three at a time.
test-all: test $(SERVICES)/.installed $(AUDIT)/.installed  ## the rest too: long, real services, the fast ones on every other Python that is installed
	@mkdir -p .nox; \
	versions=$$(pyenv versions --bare 2>/dev/null | sort -rV | paste -sd: -); \
	PYENV_VERSION="$${versions:-$$PYENV_VERSION}" nice -n 5 "$(CURDIR)/$(BIN)/nox" --no-error-on-missing-interpreters >.nox/log 2>&1 & \
	trap "kill $$!" INT TERM; \
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -n 3 --dist worksteal -m "long and not alone and not services"; long=$$?; \
	wait $$!; others=$$?; cat .nox/log; [ $$long -eq 0 ] && [ $$others -eq 0 ]
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -n 3 --dist worksteal -m "services and not alone" $(WITH_PROCESSES) tests/services
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -m "alone and (long or services)" $(WITH_PROCESSES) tests/services

services: $(SERVICES)/.installed  ## .venv-services: celery, gunicorn and the other services that tests run for real

check: $(VENV)/.installed-dev  ## linters, types, import directions
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## let the formatter do it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# When the sources were last changed: by git, or in an sdist by what git said then. What is built carries this time.
CHANGED = $${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)}

# An sdist is made of what git tracks: one that is unpacked has no git, and gives the wheel alone.
wheel: $(VENV)/.dev  ## sdist and wheel of what is committed into dist/, the same bytes wherever they are built
	umask 022; export SOURCE_DATE_EPOCH="$(CHANGED)"; \
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m build --no-isolation --skip-dependency-check $$([ -e .git ] || echo --wheel)

sbom: wheel $(AUDIT)/.installed  ## the wheel's bill of materials into dist/, as CycloneDX
	export SOURCE_DATE_EPOCH="$(CHANGED)"; version=$$($(BIN)/python -c 'import tuner; print(tuner.__version__)'); \
	$(BIN)/python requirements/sbom.py dist/tuner-$$version-*.whl >dist/tuner-$$version.cdx.json && \
	$(AUDIT)/bin/python requirements/sbom_is_valid.py dist/tuner-$$version.cdx.json

audit: $(AUDIT)/.installed  ## known faults in the locked packages, where that can be had
	$(AUDIT)/bin/python requirements/audit.py

licences: $(VENV)/.dev  ## docs/licences.md again, from the locks and what is installed
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
