"""Protobuf messages, in the order in which a definition becomes rows (``sowctl-messages(7)``, protobuf).

* ``type``: the message type; imports the other two, and so the library, when an object is made.
* ``files``: the schema: descriptor sets, ``.proto`` files compiled, the class of the messages.
* ``library``: messages of one class: decoding, paths, trees, merging.
"""
