"""Texts of the codes of files at URLs (:mod:`sowctl.codes` says how they are written)."""

from __future__ import annotations

CODES = {
    "SOW-RMT-001": """2 a URL that no file system takes

        Why: The scheme of the URL is not known, an option behind its question mark is not, or a library that the scheme
        needs is missing on this machine, as Hadoop's native one for ``hdfs``. A URL of the scheme ``file`` that names a
        machine, as ``file://data/log`` does, is one too: ``data`` would be the machine, and ``/log`` the path. So is
        one with a question mark or number sign, behind which nothing belongs to the path.
        Do: Look at the URL. The message ends with what the library said. A path follows three slashes:
        ``file:///data/log``. In it ``%3F`` and ``%23`` stand for these two characters.
        """,
    "SOW-RMT-002": """10 no such file at a URL

        Why: The store answered that there is nothing under this name.
        Do: Look at the URL. Names in object stores differ by case, and there are no directories: a slash is a part of
        the name.
        """,
    "SOW-RMT-003": """10 no such bucket or container

        Why: The store knows no bucket or container of this name, or the one that was asked is another store.
        Do: Look at the URL, and at the region or endpoint that is asked. Buckets are never made.
        """,
    "SOW-RMT-004": """6 access to a URL refused

        Why: There are no credentials, they are wrong or have expired, or they do not give the right to do this here.
        Do: Give them as the store's own tools take them: for S3 in ``AWS_ACCESS_KEY_ID`` and
        ``AWS_SECRET_ACCESS_KEY``, a profile, or the role of the machine; for GCS a file that
        ``GOOGLE_APPLICATION_CREDENTIALS`` names; for Azure ``az login`` or ``AZURE_TENANT_ID``, ``AZURE_CLIENT_ID`` and
        ``AZURE_CLIENT_SECRET``. On a cluster every machine needs them.
        """,
    "SOW-RMT-005": """6 a store that does not answer

        Why: There was no connection, it broke, or the store said that it is too busy; some attempts were made.
        Do: Look at the network and at the endpoint, and run the command again.
        """,
    "SOW-RMT-006": """6 a file at a URL that cannot be read or written

        Why: The store refused, for a reason that the message gives as the library said it.
        Do: Run the command again; where it fails again, look at the store.
        """,
    "SOW-RMT-007": """12 URLs without the extra arrow

        Why: Files at URLs are read and written by pyarrow, which is not installed.
        Do: ``pip install 'sowctl[arrow]'``; the extra ``spark`` has it, too.
        """,
    "SOW-RMT-008": """6 a file of this machine that cannot be sent

        Why: Reading it failed while it was on its way to a URL: it was removed, it may not be read, or the disk failed.
        There is no file under its name at the URL, or the one from before.
        Do: Look at its permissions and at the disk, and run the command again.
        """,
    "SOW-RMT-009": """6 a file from a URL that cannot be written here

        Why: Bringing it to this machine failed at this end: the disk is full, or its directory may not be written to.
        At the URL nothing was changed, and of a run with staging there nothing was committed.
        Do: Make room, look at the permissions of the directory, and run the command again.
        """,
}
