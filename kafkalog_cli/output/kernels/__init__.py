"""Renderers compiled by Numba, for outputs of many megabytes.

- `read_text.py`: kafka-console-consumer's text.
- `text.py`: numbers, constants, strings, and the check of UTF-8.
- `memory.py`: intrinsics that copy blocks of bytes and compare them with ranges.

A function `put…(out, at, …)` writes to `out` from index `at` on and returns the next index. It checks no bounds: its
caller reserves the room. Some functions store whole blocks, so `out` needs room after the contents. Rows of matrices
are those of the reader's `BatchColumns` and `RecordColumns`.
"""

READ_RECORDS = "kafkalog_cli.output.kernels.read_text:render_records"
