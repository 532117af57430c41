"""Verbs in separate processes that make one call of the seam at a time, in an order chosen by a test.

``touches`` (which files a call reads and writes), ``worker`` (a process that waits for its turn before every call),
``scheduler`` (one run in one order, and the notation of an order), ``strategies`` (which orders are tried), ``stage``
(the instance), ``actors`` (the verbs), ``model`` (results compared with acknowledgements), ``trial`` (all of that for
one order, and the command that repeats it).
"""
