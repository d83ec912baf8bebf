"""Where the schemas of keys and values come from: the topic `_schemas` on the same disk, or files."""
