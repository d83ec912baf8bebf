"""A log as a broker loads, rolls, cuts and retains it (Kafka's storage.internals.log), on a draft of its files."""
