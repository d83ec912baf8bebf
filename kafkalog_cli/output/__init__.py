"""The output that commands share: text, the text of the mirrored Kafka tools, NDJSON, and progress.

The text of one command is in its module in `cli`. Here is what several commands print, and large outputs:

- `findings.py`, `found_record.py`: findings, the record of a look-up. `export_lines.py`: exported records as JSON.
- `ci_report.py`, `junit_report.py`: reports of `verify` for CI; `inspect_page/`: the page of `inspect`;
  `sql_output.py`: the rows of a query.
- `ndjson.py`: JsonLines, one JSON object per line, as the class of a result declares it (`kafkalog_cli/results.py`).
- `human.py`: tables of columns with getters, and times; `messages.py`: stderr.
- `changes.py`: the text that all changes of logs share, the end of a run, and its metrics.
- `dump_*.py`: the text of kafka-dump-log, byte for byte; `read_printer.py`: the text of kafka-console-consumer;
  `kcat_text.py`: records in the format of kcat's option -f.
- `record_json.py`, `decoded_values.py`, `decoders.py`, `topic_decoders.py`, `redact.py`: records as JSON, and how
  their contents are shown.
- `line_program.py`, `rendering.py`: a form of lines is a program of items, which native/render.c executes.
- `stream.py`: ResultStream, the buffered output stream; `progress.py`: the progress line.

A block is a RecordBlock: batches with their records. A LineForm says how they become lines, with texts that only Python
can make (decoded values, control records, hashes); a printer writes the lines.
"""
