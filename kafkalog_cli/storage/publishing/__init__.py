"""A directory of results that runs fill: nothing of a run is seen before all of it is on the disk."""
