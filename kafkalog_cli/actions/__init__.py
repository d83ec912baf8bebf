"""Decisions: which segments, which records, in which order; one module a verb."""
