"""Errors of files at URLs, as errors of this program: one line, the place, the remedy.

Arrow raises OSError with texts of the libraries below it. The cause is determined by the class if it has one, else by
words in the messages of each store's library; the text itself is shown, shortened to its informative part.
"""

from __future__ import annotations

import re
from pathlib import Path

from sowctl.errors import MissingError, SowError, StorageError
from sowctl.remote.place import RemotePath

_DENIED_PATTERN = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE_DOES_NOT_MATCH|EXPIRED|UNAUTHORIZED|MISSING_AUTH"
    r"|HTTP status 40[13]|\b40[13]\b|Forbidden|Unauthorized|authenti|credential|permission",
    re.IGNORECASE,
)
_AWAY_PATTERN = re.compile(
    r"NETWORK_CONNECTION|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|timed? ?out"
    r"|could ?n[o']t (connect|resolve)|connection (refused|reset|closed)|unreachable|HTTP status 5\d\d",
    re.IGNORECASE,
)
_MISSING_SERVER_PATTERN = re.compile(
    r"NO_SUCH_BUCKET|bucket does not exist|ContainerNotFound|container does not exist", re.IGNORECASE
)
_NOISE_PATTERN = re.compile(
    r"\s*\(Request ID: [^)]*\)|curlCode: \d+, |\s+Detail: .*$|^\[Errno \d+\] |When [^:]*: ", re.DOTALL
)
_MAX_MESSAGE_CHARACTERS = 200
_AZURE_CREDENTIALS = ", such as az login, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
_GOOGLE_CREDENTIALS = ", such as a file that GOOGLE_APPLICATION_CREDENTIALS names"
_CREDENTIALS = {
    "s3": ", such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": _GOOGLE_CREDENTIALS,
    "gcs": _GOOGLE_CREDENTIALS,
    "abfs": _AZURE_CREDENTIALS,
    "abfss": _AZURE_CREDENTIALS,
    "hdfs": ", such as kinit",
}


def build_missing_file_error(place: RemotePath, what: str = "file") -> MissingError:
    """MissingError ``SOW-RMT-002``."""
    return MissingError(
        "SOW-RMT-002", f"the {what} does not exist", place=str(place), hint="check the URL; names are case-sensitive"
    )


def build_missing_server_error(place: RemotePath) -> MissingError:
    """MissingError ``SOW-RMT-003``: the bucket or container is missing."""
    return MissingError(
        "SOW-RMT-003",
        f"bucket or container {place.server.rpartition('@')[2]!r} does not exist",
        place=str(place),
        hint="check the URL, and the region or endpoint; to create it, use the tools of the store",
    )


def convert_error(error: Exception, place: RemotePath, doing: str) -> SowError:
    """The error for an exception of Arrow. ``doing`` is the attempted action: ``read``, ``written`` or ``reached``."""
    text = shorten_message(error)
    raw = str(error)
    if _MISSING_SERVER_PATTERN.search(raw):
        return build_missing_server_error(place)
    if isinstance(error, FileNotFoundError):
        return build_missing_file_error(place)
    if isinstance(error, PermissionError) or _DENIED_PATTERN.search(raw):
        return StorageError(
            "SOW-RMT-004",
            f"the file cannot be {doing}: access denied: {text}",
            place=str(place),
            hint=f"give credentials as for the store's own tools{_CREDENTIALS.get(place.scheme, '')}, "
            "and grant this access; on a cluster, on every machine",
        )
    if isinstance(error, TimeoutError | ConnectionError) or _AWAY_PATTERN.search(raw):
        return StorageError(
            "SOW-RMT-005",
            f"the file cannot be {doing}: the store does not answer: {text}",
            place=str(place),
            hint="check the network and the endpoint (for S3, endpoint_override in the URL, or "
            "AWS_ENDPOINT_URL), then try again",
        )
    return StorageError(
        "SOW-RMT-006",
        f"the file cannot be {doing}: {text}",
        place=str(place),
        hint="try again; if it fails again, check the store",
    )


def build_read_error(error: OSError, path: Path) -> StorageError:
    """StorageError ``SOW-RMT-008``: a file of this machine, to be sent to a URL, cannot be read."""
    return StorageError(
        "SOW-RMT-008",
        f"cannot read the local file for the upload: {error.strerror or error}",
        place=str(path),
        hint="check its permissions and the disk, then try again",
    )


def build_write_error(error: OSError, path: Path) -> StorageError:
    """StorageError ``SOW-RMT-009``: a file of this machine, to be read from a URL, cannot be written."""
    return StorageError(
        "SOW-RMT-009",
        f"cannot write the downloaded file: {error.strerror or error}",
        place=str(path),
        hint="free space and check the permissions of the directory, then try again",
    )


def shorten_message(error: Exception) -> str:
    """Shorten a library's message to one line, without the parts that only its support needs."""
    text = " ".join(_NOISE_PATTERN.sub("", str(error)).split()) or type(error).__name__
    return text if len(text) <= _MAX_MESSAGE_CHARACTERS else text[: _MAX_MESSAGE_CHARACTERS - 3] + "..."
