"""Measure what lies in logs (`kafkalog stats`): sizes, codecs, keys, producers, times.

`contents.py` has the numbers of a log, and adds those of several logs up. `collector.py` collects them from batches and
records; `kafkalog audit` counts batches, codecs and keys with the same classes. `over_time.py` counts records over
time. `measuring.py` reads partitions in parallel.
"""
