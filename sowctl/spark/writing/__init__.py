"""Writing Spark rows to a topic, exactly once: ``encoding`` makes messages of rows, ``writers`` stages them in tasks
and commits those of the winning attempts, ``attempts`` tells which attempts won.
"""
