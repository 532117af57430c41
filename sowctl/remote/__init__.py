"""Files at URLs: object stores and file systems of clusters, through ``pyarrow.fs`` (``sow-archive(5)``, PLACES).

Local files are opened where they are used, not here.

* ``place``: a local path or a URL, as a value; imported at every start, so it imports nothing else.
* ``remote_files``: opening, reading by offset, writing and listing files at URLs.
* ``remote_errors``: errors of files at URLs as errors of this program.
"""
