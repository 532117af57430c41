"""A stream of bytes cut into messages (``sowctl(1)``, INPUT), in the order in which bytes pass.

* ``frames``: reads the stream, and hands out what is complete
* ``cutters``: one per framing
* ``envelope``: lines that carry a message and its metadata
* ``chunks``: what is handed out: messages, their places, and refusals
"""
