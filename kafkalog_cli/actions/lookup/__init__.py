"""Looking up a record by offset or time, and how it was found."""
