"""Files at URLs: object stores and file systems of clusters, through ``pyarrow.fs`` (``sow-archive(5)``, PLACES).

``place`` is a path of this machine or a URL, as a value: it is imported at every start and costs nothing.
``remote_files`` is the one door to what lies there: reading by offset, writing, looking. ``remote_errors`` says what
went wrong. Only a file that lies at a URL comes through this door; local files are opened where they are used.
"""
