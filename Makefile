# Everything a developer runs by hand; `make help` lists it.
PYTHON ?= python3
MUTATION ?= run
.PHONY: help fmt lint type test test-all test-night test-oldest mutation interop live-broker fuzz-loader fuzz-changes fuzz-cleaner fuzz-imports fuzz-native fuzz-nodes fuzz-spark-source fuzz-sql bench site docs screens dist test-dist

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## / - /'
fmt:             ## format the code
	ruff format . && ruff check --fix .
lint:            ## style and layers
	ruff check . && ruff format --check . && lint-imports && codespell
type:            ## static types
	mypy
test:            ## the test suite, quick, as in the README
	$(PYTHON) -m pytest -n 3
test-all:        ## all cases of all tests
	$(PYTHON) -m pytest -n 3 --effort full
test-night:      ## all cases, and 25 times the random ones: hours
	$(PYTHON) -m pytest -n 3 --effort night
test-oldest:     ## formats, records and the command line with the lowest versions of dependencies, in build/oldest
	$(PYTHON) tests/oldest_versions.py build/oldest
mutation:        ## boundary mutants of the layers from format to ops; MUTATION="run --below kafkalog_cli/broker --sample 50 --seed 2" chooses
	$(PYTHON) -m tests.mutation map
	$(PYTHON) -m tests.mutation $(MUTATION)
interop:         ## only what runs the real Kafka (Java and Maven)
	$(PYTHON) -m pytest -m interop
live-broker:     ## readers beside two busy real brokers for 5 minutes, most of them with a fifth of the CPU: no false alarm
	$(PYTHON) -m tests.kafka.live_broker --seconds 300
fuzz-loader:     ## 20,000 damaged partitions through the real loader and ours; the result goes into docs/compared.md
	$(PYTHON) -m tests.kafka.fuzz_loader --count 20000 --record
fuzz-changes:    ## 10,000 rolls, retentions, truncations, deletions of records by the real log and ours; the result goes into docs/compared.md
	$(PYTHON) -m tests.kafka.fuzz_changes --count 10000 --record
fuzz-cleaner:    ## 1,000 random logs, cleaned up to four times each by the real cleaner and ours; the result goes into docs/compared.md
	$(PYTHON) -m tests.kafka.fuzz_cleaner --count 1000 --record
fuzz-imports:    ## 5,000 random logs exported and imported, read before and after, loaded by the real loader; the result goes into docs/compared.md
	$(PYTHON) -m tests.kafka.fuzz_imports --count 5000 --record
fuzz-nodes:      ## 300 damaged log directories: a real node starts on each, and what verify and doctor print is compared; the result goes into docs/compared.md
	$(PYTHON) -m tests.kafka.fuzz_nodes --count 300 --record
fuzz-spark-source: ## 500 sets of options by Spark's own Kafka source and ours; the result goes into docs/compared.md
	$(PYTHON) -m tests.kafka.fuzz_spark_source --count 500 --record
fuzz-sql:        ## 2,000 random queries through Spark and SQLite over a naive decoder; the result goes into docs/compared.md
	$(PYTHON) -m tests.spark.sql_fuzz --count 2000 --record
fuzz-native:     ## mutated bytes through the C library for an hour, with ASan and UBSan
	$(PYTHON) native/fuzz.py 3600
bench-smoke:     ## CPU seconds of ten commands, as ratios to a loop in Python, beside those of bench/smoke.json
	$(PYTHON) bench/smoke.py
bench:           ## the table of docs/bench.md
	$(PYTHON) bench/compare.py
site:            ## the pages of docs/ as a site in build/site
	$(PYTHON) -m mkdocs build --strict
docs:            ## regenerate man/, completions/, schemas, llms.txt and the pages of docs/ that are made of the code
	for page in findings refusals reference schemas index; do $(PYTHON) docs/generate_$$page.py || exit 1; done
screens:         ## the pictures of docs/screens
	$(PYTHON) docs/generate_screens.py
dist:            ## wheel, sdist, SBOM, wheelhouse and the executable in one file, in dist/ (some minutes, 3 GiB in build/)
	$(PYTHON) packaging/build.py dist
test-dist:       ## what make dist has built: the executable in an empty root (needs root), the wheelhouse without network
	KAFKALOG_TEST_DIST=dist $(PYTHON) -m pytest tests/packaging
