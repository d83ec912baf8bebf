"""Kafka's log cleaner, offline: what is dirty, what of it goes, and the segments that are left (Cleaner)."""
