"""`metadump`: a copy of log directories without their data, for a colleague who looks at damage.

- `pseudonyms.py`: what stands in the place of keys, texts and names; equal keys stay equal. The secret of a run
  is not kept.
- `batches.py`: a batch or message set with other contents, of the same size and with the same headers.
- `internal_records.py`: records of internal topics keep their structure, and lose users, hosts, secrets and metadata.
- `files.py`: a log file batch by batch, with its damage; checkpoints with hashed names; other files as they are.
- `copying.py`: whole log directories, into a directory that appears when it is complete.

Sizes and positions of batches stay, so indexes, checkpoints and snapshots stay true without a change.
"""
