"""One partition's log, opened to read."""
