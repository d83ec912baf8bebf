#!/bin/sh
# A tour of kafkalog on docs/example, a log directory that a Kafka 4.2.0 broker wrote. Run it from the clone.
set -eu
cd "$(dirname "$0")/example"
run() { printf '\n$ kafkalog %s\n' "$*"; kafkalog "$@"; }

run ls .
run dump-log mixed-0 --deep-iteration --from-offset 10 --to-offset 14
run lookup-offset mixed-0 11
run lookup-time mixed-0 2023-11-14T22:13:25Z
run dump-index mixed-0

# On Spark, which takes a while to start.
run sql . 'select topic, partition, codec, sum(records) records, sum(size_bytes) bytes from batches group by 1, 2, 3 order by 1, 2, 3'
run sql . 'select key, count(*) records, max(offset) newest from mixed group by key order by records desc, key limit 3'

exported=$(mktemp -d)
trap 'rm -r "$exported"' EXIT
run export . --topic mixed --output "$exported"
(cd "$exported" && find . -type f -name '*.parquet' | sort)
