"""Import records from files as new partitions of a log directory.

`request.py` is what to import, and `inputs.py` and `taking.py` read the files. `planning.py` decides which
partitions to make. `scattering.py` sorts rows by partition and by offset. `building.py` makes a partition, and
`proving.py` reads it back and has the outcome.
"""
