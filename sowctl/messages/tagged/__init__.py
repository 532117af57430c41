"""Types of name and value pairs: fix, nvfix, bflat.

* ``tagvalue``: fix and nvfix; ``fix``, ``nvfix``: what each has of its own; ``fix`` also the names of common tags
* ``columns``: many messages of fix or nvfix at once
* ``bflat``: the typed pairs; ``bflatcodec``: their bytes
* ``fields``: merging, writing and selecting on a sequence of fields, for all three
"""
