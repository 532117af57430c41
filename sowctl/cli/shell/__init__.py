"""Many commands in one process: ``sowctl shell``, at a terminal or from a pipe.

* ``command_lines``: lines of a script or a terminal cut into words, as a POSIX shell cuts them.
* ``runner``: one command after the other behind the one error boundary, with what they share.
* ``prompt``: the terminal: editing, history, completion; the only module that imports prompt_toolkit.
"""
