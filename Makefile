# Every verb is one line; the work is in ci/*.sh and in impi itself.
# 'make' shows verbs with ##, 'make help-all' those with #- as well.
.DEFAULT_GOAL := help
.PHONY: help help-all docs interop weekly faults soak threads slurm swarm kubernetes test proofs lint pythons reference abi compat programs corpus bench coverage clauses mutants fuzz audit sbom release clean

help:     #- show the verbs that you need most
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' Makefile
help-all: ## show all verbs
	@awk -F':.*#[#-] ' '/^[a-z-]+:.*#[#-] /{printf "  make %-11s %s\n", $$1, $$2}' Makefile
docs:     ## build the site of the pages into build/site
	@ci/venv.sh docs && ci/site.sh
interop:  ## build what is needed and run every vendor pair; prints the matrix
	@ci/venv.sh lab && ci/vendors.sh && .venv/bin/impilab run $(ARGS)
weekly:   ## the parts of the matrix that take long: all pairs, versions, LAM, networks, other machines
	@ci/venv.sh lab && ci/vendors.sh && ci/weekly.sh
test:     ## run the tests, in 20 minutes on two cores (needs no Docker engine)
	@ci/venv.sh dev && ci/vendors.sh && .venv/bin/python -m pytest -n auto --dist worksteal $(ARGS)
proofs:   ## run what takes longer: labs of containers, real hangs, storms, all pairs of vendors
	@ci/venv.sh proofs && ci/vendors.sh && .venv/bin/python -m pytest -n auto -m proof $(ARGS)
lint:     ## ruff, mypy --strict, import-linter
	@ci/venv.sh dev && ci/lint.sh
reference: #- write docs/reference: verbs, options, variables, exit codes, schemas, impi.MPI
	@ci/venv.sh dev && .venv/bin/python ci/reference.py
pythons:  #- the tests of the protocol on each Python from 3.11 to 3.14 that is here
	@ci/pythons.sh $(ARGS)
threads:  #- eight threads of each proc do all that MPI has for an hour: none lost, doubled or changed
	@ci/venv.sh dev && ci/vendors.sh && .venv/bin/python tests/jobs $(ARGS)
faults:   ## the fault matrix: kill, freeze, cut each part of a job at each phase; prints the matrix
	@ci/venv.sh lab && ci/vendors.sh && .venv/bin/impilab run --tier faults $(ARGS)
swarm:    #- cells of three vendors on a Docker swarm of two engines, made for it
	@ci/venv.sh dev && ci/vendors.sh && .venv/bin/python -m pytest -m "proof or alone" tests/swarm -v $(ARGS)
kubernetes: #- cells of three vendors as Jobs, in a stand-in of a cluster whose pods are containers
	@ci/venv.sh dev && ci/vendors.sh && .venv/bin/python -m pytest -m "proof or alone" tests/kubernetes -v $(ARGS)
soak:     #- millions of messages and one-sided operations on jobs of several vendors: none lost, doubled, reordered or changed
	@ci/venv.sh lab && ci/vendors.sh && .venv/bin/impilab run --tier soak --jobs 1 $(ARGS)
slurm:    #- heterogeneous jobs of a real Slurm in containers: two partitions, three vendors
	@ci/venv.sh dev && ci/vendors.sh && .venv/bin/python -m pytest -m proof tests/slurm -v $(ARGS)
abi:      #- programs in C for each ABI of MPI, under each vendor and in mixed jobs; prints the matrix
	@ci/venv.sh lab && ci/vendors.sh && .venv/bin/impilab run --tier abi $(ARGS)
compat:   #- mpi4py's own test suite on jobs of several vendors, beside what each makes of it alone
	@ci/venv.sh dev && ci/vendors.sh && .venv/bin/python tests/compat $(ARGS)
programs: #- programs of others (mpi4py's demo, 50 packages) on jobs of three vendors, beside one alone
	@ci/venv.sh dev && ci/vendors.sh && .venv/bin/python tests/programs $(ARGS)
corpus:   #- programs and suites that others compiled or wrote, on jobs of several clients
	@ci/venv.sh dev && ci/vendors.sh && .venv/bin/python tests/corpus $(ARGS)
bench:    ## measure IMPI beside what it is made of, as ratios
	@ci/venv.sh lab && ci/vendors.sh && .venv/bin/impi bench $(ARGS)
coverage: #- branch coverage of wire, startup, transfer, each by its own tests
	@ci/venv.sh dev && ci/coverage.sh
clauses:  #- break the code clause by clause and see that the tests notice
	@ci/venv.sh dev && .venv/bin/python ci/clauses.py $(ARGS)
mutants:  #- give impi one fault at a time, and see that cells of core and pairs turn red (Docker)
	@ci/venv.sh lab && ci/vendors.sh && .venv/bin/python tests/mutants $(ARGS)
fuzz:     #- ten million inputs to server, client and host, and a million to all that asks for a proof
	@ci/venv.sh fuzz && .venv/bin/python tests/fuzz $(ARGS)
audit:    #- ask the package index for known vulnerabilities of all that is installed
	@ci/audit.sh
sbom:     #- write a bill of materials (CycloneDX) of all that 'pip install impilab[lab]' installs, into build/
	@ci/venv.sh lab && .venv/bin/python ci/sbom.py
release:  #- make a release in dist/: sdist, wheel, notes, bill of materials, checksums
	@ci/release.sh $(ARGS)
clean:    ## remove what runs have left: containers, networks, folders; labs that are up stay
	@ci/venv.sh lab && .venv/bin/impilab clean
