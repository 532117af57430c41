"""What went wrong with a file at a URL, as errors of this program: one line, the place, what to do.

Arrow raises OSError with texts of the libraries below it. What matters is told by the class where it has one, else by
words that the libraries of each store use; the text itself is shown, shortened to what says something.
"""

from __future__ import annotations

import re
from pathlib import Path

from sowctl.errors import MissingError, SowError, StorageError
from sowctl.remote.place import RemotePath

_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE_DOES_NOT_MATCH|EXPIRED|UNAUTHORIZED|MISSING_AUTH"
    r"|HTTP status 40[13]|\b40[13]\b|Forbidden|Unauthorized|authenti|credential|permission",
    re.IGNORECASE,
)
_AWAY = re.compile(
    r"NETWORK_CONNECTION|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|timed? ?out"
    r"|could ?n[o']t (connect|resolve)|connection (refused|reset|closed)|unreachable|HTTP status 5\d\d",
    re.IGNORECASE,
)
_NO_ROOM = re.compile(r"NO_SUCH_BUCKET|bucket does not exist|ContainerNotFound|container does not exist", re.IGNORECASE)
_NOISE = re.compile(r"\s*\(Request ID: [^)]*\)|curlCode: \d+, |\s+Detail: .*$|^\[Errno \d+\] |When [^:]*: ", re.DOTALL)
_LONGEST = 200
_AZURE = ", such as az login, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
_GOOGLE = ", such as a file that GOOGLE_APPLICATION_CREDENTIALS names"
_CREDENTIALS = {
    "s3": ", such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": _GOOGLE,
    "gcs": _GOOGLE,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "hdfs": ", such as kinit",
}


def no_such_file(place: RemotePath, what: str = "file") -> MissingError:
    """MissingError ``SOW-RMT-002``."""
    return MissingError(
        "SOW-RMT-002", f"there is no such {what}", place=str(place), hint="look at the URL; names differ by case"
    )


def no_such_server(place: RemotePath) -> MissingError:
    """MissingError ``SOW-RMT-003``: the bucket or container is missing."""
    return MissingError(
        "SOW-RMT-003",
        f"there is no bucket or container {place.server.rpartition('@')[2]!r}",
        place=str(place),
        hint="look at the URL, and at the region or endpoint that is asked; make it with the tools of that store",
    )


def of(error: Exception, place: RemotePath, doing: str) -> SowError:
    """The error for what Arrow raised. ``doing`` is ``read``, ``written`` or ``reached``: what was tried."""
    text = shortened(error)
    raw = str(error)
    if _NO_ROOM.search(raw):
        return no_such_server(place)
    if isinstance(error, FileNotFoundError):
        return no_such_file(place)
    if isinstance(error, PermissionError) or _DENIED.search(raw):
        return StorageError(
            "SOW-RMT-004",
            f"the file cannot be {doing}: access was refused: {text}",
            place=str(place),
            hint=f"give credentials as the store's own tools take them{_CREDENTIALS.get(place.scheme, '')}, and the "
            "right to this place; on a cluster on every machine",
        )
    if isinstance(error, TimeoutError | ConnectionError) or _AWAY.search(raw):
        return StorageError(
            "SOW-RMT-005",
            f"the file cannot be {doing}: the store does not answer: {text}",
            place=str(place),
            hint="look at the network and at the endpoint (for S3 the URL's endpoint_override, or AWS_ENDPOINT_URL); "
            "then run it again",
        )
    return StorageError(
        "SOW-RMT-006",
        f"the file cannot be {doing}: {text}",
        place=str(place),
        hint="run it again; where it fails again, look at the store",
    )


def unread(error: OSError, path: Path) -> StorageError:
    """StorageError ``SOW-RMT-008``: a file of this machine cannot be read, which was to go to a URL."""
    return StorageError(
        "SOW-RMT-008",
        f"the file of this machine cannot be read to be sent: {error.strerror or error}",
        place=str(path),
        hint="look at its permissions and at the health of the disk, then run it again",
    )


def unwritten(error: OSError, path: Path) -> StorageError:
    """StorageError ``SOW-RMT-009``: a file of this machine cannot be written, which came from a URL."""
    return StorageError(
        "SOW-RMT-009",
        f"the file that comes from a URL cannot be written on this machine: {error.strerror or error}",
        place=str(path),
        hint="make room there, and look at the permissions of the directory, then run it again",
    )


def shortened(error: Exception) -> str:
    """What a library said, in one line and without what only its support needs."""
    text = " ".join(_NOISE.sub("", str(error)).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
