"""Many commands in one process: ``sowctl shell``, at a terminal or from a pipe.

* ``command_lines``: splitting lines into words as a POSIX shell does.
* ``runner``: running commands one after the other, each behind the error boundary.
* ``prompt``: editing, history and completion at a terminal; the only importer of prompt_toolkit.
"""
