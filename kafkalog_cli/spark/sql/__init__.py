"""Queries in SQL over log directories: each topic a view, and the tables of `tables.TABLES`."""
