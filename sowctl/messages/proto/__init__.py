"""Protobuf messages, in the order in which a definition becomes rows (``sowctl-messages(7)``, protobuf).

* ``type``: the message type; imports the two below, and so the library, when one is made
* ``files``: the schema: descriptor sets, ``.proto`` files by way of the compiler, the class of the messages
* ``library``: one class of messages: decoding, paths, trees, merging
"""
