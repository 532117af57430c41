"""Protobuf messages, in the order from a definition to rows (``sowctl-messages(7)``, protobuf).

* ``type``: the message type; imports the other two, and so the library, when an object is created.
* ``files``: the schema: descriptor sets, ``.proto`` files compiled, the class of the messages.
* ``library``: messages of one class: decoding, paths, trees, merging.
"""
