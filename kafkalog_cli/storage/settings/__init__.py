"""What a broker and its metadata log say of a topic: settings, ids, replicas."""
