"""Import records from files as new partitions of a log directory.

`request.py` is what to import, and `inputs.py` and `taking.py` read the files. `planning.py` decides which
partitions to make, and reads them back in the end. `scattering.py` sorts rows by partition and by offset.
`building.py` makes a partition.
"""
