"""Several commands in one process: ``sowctl shell``, on a terminal or from a pipe.

* ``command_lines``: splitting lines into words as a POSIX shell does.
* ``runner``: running commands one after the other, each inside the error boundary.
* ``prompt``: editing, history and completion at a terminal; the only importer of prompt_toolkit.
"""
