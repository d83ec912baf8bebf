"""Retention as a broker has it, why, when, and on a disk that is full."""
