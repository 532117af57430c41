"""A stream of bytes split into messages (``sowctl(1)``, INPUT), in the order in which bytes pass.

* ``frames``: reading the stream, and returning complete messages.
* ``encodings``: detecting inputs that are not UTF-8.
* ``cutters``: one class per framing.
* ``envelope``: lines with a message and its metadata.
* ``chunks``: the result: messages, their positions, and refusals.
"""
