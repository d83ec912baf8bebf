"""Measure what lies in logs (`kafkalog stats`): sizes, codecs, keys, producers, times.

`contents.py` has the numbers of a log, and adds the numbers of several logs up; `kafkalog audit` counts batches, codecs
and keys with the same classes. `measuring.py` reads partitions in parallel and collects the numbers.
"""
