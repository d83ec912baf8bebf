"""Decode keys and values.

`schema_sources.py` reads schemas: from the topic `_schemas` on the same disk, or from files. `decoded_columns.py` makes
columns of Arrow, and `undecoded.py` counts what was not decoded.
"""
