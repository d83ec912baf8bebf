"""What the internal topics and the metadata log say: groups, transactions, brokers, topics and settings."""
