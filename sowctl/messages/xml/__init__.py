"""Message type ``xml``, in the order in which a payload is processed.

* ``type``: the message type, which the rest of the program calls.
* ``parse``: the parser, and its refusals.
* ``read``: values by path.
* ``tree``: a message as parts with their bytes, and its JSON view.
* ``write``: deltas, constructed fields, select lists.
"""
