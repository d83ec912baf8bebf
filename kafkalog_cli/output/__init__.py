"""The output of every command: text, the text of the mirrored Kafka tools, NDJSON, and progress.

- `…_view.py`, `…_text.py`: text of commands whose own module does not have it.
- `ndjson.py`: JsonLines, one JSON object per line, as the class of a result declares it (`kafkalog_cli/results.py`).
- `human.py`: tables of columns with getters, and times; `messages.py`: stderr.
- `changes.py`: the text that all changes of logs share, the end of a run, and its metrics.
- `dump_*.py`: the text of kafka-dump-log, byte for byte; `read_printer.py`: the text of kafka-console-consumer.
- `record_json.py`, `decoders.py`, `topic_decoders.py`, `redact.py`: records as JSON, and how their contents are
  shown.
- `line_program.py`, `rendering.py`: a form of lines is a program of items, which native/render.c executes.
- `stream.py`: ResultStream, the buffered output stream; `progress.py`: the progress line.

A block is a RecordBlock: batches with their records. A LineForm says how they become lines, with texts that only Python
can make (decoded values, control records, hashes); a printer writes the lines.
"""
