"""The requests and responses of Kafka's protocol that kafkalog serves, by their message schemas.

`messages.json` contains the definitions in the form of the internal topics' schemas.json. `messages` makes tables
of it, and reads and writes headers and bodies. `errors` are the codes of errors.
"""
