"""Damage: the checks of files, their report (`verify`, `doctor`), and the repair (`recover`)."""
