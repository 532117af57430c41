"""Messages that consist of messages of other types.

* ``type``: the base of both types: parts, each with a length prefix.
* ``localtype``: composite-local: paths begin with the number of the part.
* ``globaltype``: composite-global: the fields of all parts are those of one message.
"""
