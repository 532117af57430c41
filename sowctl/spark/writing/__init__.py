"""Writing Spark rows to a topic, exactly once: ``row_encoder`` makes messages of rows, ``writers`` stages them in tasks
and commits those of the winning attempts, ``staging`` tells which attempts won.
"""
