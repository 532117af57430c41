"""Writing Spark rows to a topic, exactly once.

* ``row_encoder``: conversion of rows to messages.
* ``writers``: staging messages in tasks, and committing those of the successful attempts.
* ``sequences``: the sequence numbers of a stream's batches.
* ``staging``: the staging directory of a write, and its owner.
"""
