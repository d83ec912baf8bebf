"""A record of what command lines answer, kept through the redesign."""

BASE = "0e2dc2fa35b3263530e390e8ec8db0957cc96676"
"""The last commit before the redesign: old and new commands are compared with it."""
