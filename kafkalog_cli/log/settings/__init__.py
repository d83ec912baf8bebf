"""Settings of topics and brokers, and the cluster's metadata: topic ids, replicas, brokers.

`topic_config_table` lists the settings of Kafka 4.4 that concern logs, with their types, defaults and legal values.
`topic_config` finds the value of each setting, and the source that it comes from: the command line, the metadata log,
server.properties, or Kafka's default. A setting is known if no source that could override it was left unread.
`cluster_metadata` reads the newest snapshot of `__cluster_metadata` and the log after it, as a broker does at start-up.
`metadata_image` and `cluster_registry` are the state that these records produce.
"""
