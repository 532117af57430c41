"""Maintenance of journal files, under a separate lock; specified in ``sow-journal(5)``, "Looking after files".

* ``lock``: the lock of maintenance: one process at a time.
* ``survey``: the files as values: size, age, entries.
* ``relocation``: moves files into the archive and removes files, oldest first; each file is complete at every moment.
* ``upload``: uploads files to a URL, with the manifest.
* ``file_compression``: compresses a file; it is complete at every moment, plain or compressed.
* ``repair``: replaces damage by a gap; undamaged bytes stay unchanged.
"""
