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
