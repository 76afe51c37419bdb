# Every verb is one line; the work is in ci/*.sh and in impi itself.
.DEFAULT_GOAL := help
.PHONY: help interop test lint clean

help:     ## show these verbs
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile
interop:  ## build what is needed and run every vendor pair; prints the matrix
	@ci/venv.sh lab && ci/vendors.sh && .venv/bin/impilab run $(ARGS)
test:     ## run the tests (needs no engine)
	@ci/venv.sh lab && ci/vendors.sh && .venv/bin/python -m pytest -n auto $(ARGS)
lint:     ## ruff, mypy --strict, import-linter
	@ci/venv.sh lab && ci/lint.sh
clean:    ## remove containers, networks and folders that the lab made
	@ci/venv.sh lab && .venv/bin/impilab clean
