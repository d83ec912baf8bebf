"""Look up a record by offset or time, and show how it was found."""
