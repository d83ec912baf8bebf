"""Export as a job of Spark: tasks write files from the core's columns, the driver commits them."""
