"""`metadump`: a copy of log directories without their data, for a colleague who looks at damage.

- `internal_records.py`: records of internal topics keep their structure, and lose users, hosts, secrets and metadata.
  Pseudonyms stand in the place of keys, texts and names; equal keys stay equal. The secret of a run is not kept.
- `files.py`: a log file batch by batch, with its damage and the same headers; checkpoints with hashed names; other
  files as they are.
- `copying.py`: whole log directories, into a directory that appears when it is complete.

Offsets and times stay, so time indexes, checkpoints and snapshots stay true without a change. Snappy and lz4 batches
get other sizes: offset indexes follow.
"""
