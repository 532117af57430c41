"""An archive of journal files at a URL (``sow-archive(5)``), as readers of a journal see it.

manifest    what lies in the archive
archived    what the manifest tells of a file
remotefile  a file at a URL, read by offset
joining     an archive in front of the files here: which there are, and that they are one journal

:mod:`sowctl.journal.maintenance.upload` writes it.
"""
