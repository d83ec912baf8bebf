"""From the bytes of a segment to columns: scanned, decompressed, decoded, ahead in threads, across damage."""
