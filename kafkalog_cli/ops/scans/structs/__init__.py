"""The columns key_struct and value_struct: decoded keys and values as structs of Spark.

`columns.py` finds the type of a topic's column: that of its newest schema. `avro.py` and `protobuf.py` say which type a
schema has in Spark, and convert values of any older schema to it.
"""
