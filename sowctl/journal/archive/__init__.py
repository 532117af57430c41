"""An archive of journal files at a URL (``sow-archive(5)``), for readers of a journal.

* ``manifest``: the manifest of the archive.
* ``archived_file``: the manifest's entry of a file.
* ``remotefile``: a file at a URL, read by offset.
* ``remote_archive``: the files of an archive as the older part of a local journal.

:mod:`sowctl.journal.maintenance.upload` writes it.
"""
