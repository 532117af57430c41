"""Texts of the codes of files at URLs (:mod:`sowctl.codes` describes their form)."""

from __future__ import annotations

CODES = {
    "SOW-RMT-001": """2 invalid or unsupported URL

        Why: The scheme of the URL is unknown, an option after the question mark is unknown, or a library for the scheme
        is missing on this machine, such as Hadoop's native library for ``hdfs``. Also invalid: a URL where only a local
        path can be given, such as the directory of a backup; a ``file`` URL with a host, such as ``file://data/log``,
        where ``data`` would be the host and ``/log`` the path; and a ``file`` URL with a question mark or number sign,
        which end the path.
        Do: Correct the URL. The message ends with the text of the library. A path follows three slashes:
        ``file:///data/log``. In a path, write ``%3F`` and ``%23`` for question mark and number sign.
        """,
    "SOW-RMT-002": """10 file not found at the URL

        Why: The store has no file with this name.
        Do: Check the URL. Names in object stores are case-sensitive, and a slash is part of the name, not a directory.
        """,
    "SOW-RMT-003": """10 bucket or container not found

        Why: The store has no bucket or container with this name, or the request went to another store.
        Do: Check the URL, and the region or endpoint. Buckets are never created.
        """,
    "SOW-RMT-004": """6 access to a URL denied

        Why: Credentials are missing, invalid or expired, or do not grant this access.
        Do: Give them as for the store's own tools: for S3 in ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, a
        profile, or the role of the machine; for GCS in the file that ``GOOGLE_APPLICATION_CREDENTIALS`` names; for
        Azure with ``az login`` or ``AZURE_TENANT_ID``, ``AZURE_CLIENT_ID`` and ``AZURE_CLIENT_SECRET``. On a cluster,
        every machine needs them.
        """,
    "SOW-RMT-005": """6 store does not answer

        Why: The connection failed or was lost, or the store was too busy. Several attempts were made.
        Do: Check the network and the endpoint, and run the command again.
        """,
    "SOW-RMT-006": """6 file at a URL cannot be read or written

        Why: The store rejected the request; the message has the reason in the words of the library.
        Do: Run the command again; if it fails again, check the store.
        """,
    "SOW-RMT-007": """12 URLs require the extra arrow

        Why: Files at URLs are read and written by pyarrow, which is not installed.
        Do: ``pip install 'sowctl[arrow]'``; the extra ``spark`` includes it.
        """,
    "SOW-RMT-008": """6 local file cannot be uploaded

        Why: Reading the local file failed during the upload: it was removed, is not readable, or the disk failed. The
        file at the URL does not exist, or is the previous one.
        Do: Check the permissions and the disk, and run the command again.
        """,
    "SOW-RMT-009": """6 downloaded file cannot be written

        Why: Writing the local file failed during a download: the disk is full, or the directory is not writable. At the
        URL, nothing was changed; a run with staging there committed nothing.
        Do: Free space, check the permissions of the directory, and run the command again.
        """,
}
