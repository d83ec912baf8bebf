"""Sidecar files against the log that they are about, entry by entry: what dump-index says and verify goes by."""
