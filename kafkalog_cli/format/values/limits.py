"""Limits of decoding one key or value: what is beyond is shown as bytes, with the reason."""

MOST_PAYLOAD_BYTES = 8 << 20
"""The largest payload that is decoded."""

MOST_VALUES = 400_000
"""The most values (fields, items, messages) of one payload; each is an object of Python."""

MOST_DEPTH = 100
"""The deepest nesting of a value; the same limit as that of Protobuf's libraries."""
