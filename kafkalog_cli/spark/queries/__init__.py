"""Queries in SQL over log directories: each topic is a view, and so are the tables of `tables.TABLES`.

- `query.py`: runs one query: plans it against empty stand-ins of the views, then reads only the columns and ranges
  used.
- `dataframe.py`: `kafkalog_cli.spark.sql`, which gives the rows of a query as a DataFrame.
- `early.py`: finds misspelt names before Spark is started.
- `catalog.py`: the views of topics and tables under the paths.
- `plans.py`: reads Spark's plans: names, whether a plan only reads, and the columns that it uses.
- `ranges.py`: the partitions, offsets and times that a plan can use of each view.
- `aggregates.py`: plans whose counts, sums, and smallest and largest values the tasks compute.
- `confinement.py`: refuses queries that read files or call code.
"""
