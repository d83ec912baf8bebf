"""read: the records of a partition as a consumer gets them."""
