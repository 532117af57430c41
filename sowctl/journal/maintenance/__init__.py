"""Maintenance of a journal's files, under a lock of its own; rules in ``sow-journal(5)``, "Looking after files".

* ``lock``: the lock of maintenance: one process at a time.
* ``survey``: the files as values: size, age, entries.
* ``relocation``: moving files into the archive and removing files, oldest first; each file is complete at every moment.
* ``upload``: uploading files to a URL, with the manifest.
* ``file_compression``: compressing a file; it is complete at every moment, plain or compressed.
* ``repair``: replacing damage by a gap; undamaged bytes stay as they are.
"""
