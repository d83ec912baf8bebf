"""The start of the single-file executable."""

from kafkalog_cli.__main__ import main

main()
