"""The output of every command: text, the text of the mirrored Kafka tools, NDJSON, and progress.

- `views.py`: a View is how a verb's results are shown: JSON fields, text lines, and the counts of its summary.
- `…_view.py`, `…_views.py`, `…_text.py`: the View and the text of each command that checks or changes logs.
- `ndjson.py`: JsonLines, one JSON object per line, as the class of a result declares it (`kafkalog_cli/results.py`).
- `human.py`: tables of columns with getters, and times; `messages.py`: stderr.
- `log_plan_view.py`: the parts that all changes share.
- `dump_*.py`: the text of kafka-dump-log, byte for byte; `read_printer.py`: the text of kafka-console-consumer.
- `record_json.py`, `decoders.py`, `topic_decoders.py`, `redact.py`: records as JSON, and how their contents are
  shown.
- `line_program.py`, `rendering.py`: a form of lines is a program of items, which native/render.c executes.
- `stream.py`: ResultStream, the buffered output stream; `progress.py`: the progress line.

A block is a RecordBlock: batches with their records. A LineForm says how they become lines, with texts that only Python
can make (decoded values, control records, hashes); a printer writes the lines.
"""
