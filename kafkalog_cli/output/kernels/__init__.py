"""Rendering loops compiled by Numba, for outputs of many megabytes."""
