"""Records of Kafka's internal topics and of control batches, decoded by their message schemas."""
