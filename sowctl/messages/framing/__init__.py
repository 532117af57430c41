"""A stream of bytes split into messages (``sowctl(1)``, INPUT), in the order of processing.

* ``input_files``: input files, decompressed; temporary copies of pipes.
* ``frames``: reading the stream, and returning complete messages.
* ``encodings``: detecting inputs that are not UTF-8.
* ``cutters``: one class per framing.
* ``json_values``: JSON arrays, and objects over several lines.
* ``envelope``: lines with a message and its metadata.
* ``foreign_envelope``: lines with records of Kafka or change events of Debezium.
* ``chunks``: the result: messages, their positions, and refusals.
"""
