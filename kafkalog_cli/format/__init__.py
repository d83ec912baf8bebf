"""Bytes to values and back for every file of a Kafka log directory; pure, no files, no clock."""
