"""Verbs in processes of their own that make one call of the seam at a time, in an order that a test decides.

``touches`` (which files a call reads and writes), ``worker`` (a process that waits for its turn before every call),
``scheduler`` (one run in one order, and how an order is written down), ``strategies`` (which orders are tried),
``stage`` (the instance), ``actors`` (the verbs), ``model`` (what was found against what was promised), ``trial`` (all
of that for one order, and the command that repeats it).
"""
