"""Messages of any type as Arrow columns of declared or inferred Spark types.

``inference`` finds the types of messages, ``decoding`` makes structs of whole batches; where a message does not fit at
once, ``jsontrees`` reads it with every digit and ``jsoncolumns`` makes its values fit, one by one. ``arrays`` makes
columns of the numbers and bytes that stores and journals hold beside the payload.
"""
