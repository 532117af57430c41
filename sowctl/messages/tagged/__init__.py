"""Types of name and value pairs: fix, nvfix, bflat.

* ``tagvalue``: the base of fix and nvfix.
* ``fix``: fix.
* ``nvfix``: nvfix.
* ``columns``: fields of many fix or nvfix messages at once.
* ``bflat``: bflat.
* ``bflatcodec``: the bytes of bflat messages.
* ``fields``: merging, writing and selecting on a sequence of fields, for all three.
"""
