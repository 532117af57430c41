"""An archive of journal files at a URL (``sow-archive(5)``), as readers of a journal see it.

* ``manifest``: the manifest of the archive.
* ``archived_file``: a file as the manifest describes it.
* ``remotefile``: a file at a URL, read by offset.
* ``remote_archive``: the files of an archive as the older part of a local journal.

:mod:`sowctl.journal.maintenance.upload` writes it.
"""
