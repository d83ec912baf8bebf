"""One segment by its indexes: where it ends, what is where in it, and how its index entries come to be."""
