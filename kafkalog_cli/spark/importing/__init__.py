"""Import as a job of Spark: tasks build partitions, the driver has them seen all at once."""
