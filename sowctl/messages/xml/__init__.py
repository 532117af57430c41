"""Message type ``xml``, in the order in which a payload passes.

* ``type``: the door; ``parse``: the parser, with what it refuses; ``read``: values by path
* ``tree``: a message taken apart, with the bytes of its parts, and its view; ``write``: deltas, fields, select lists
"""
