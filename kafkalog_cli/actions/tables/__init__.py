"""What log directories hold besides records, as rows: coordinators' state, cluster metadata, batches, segments."""
