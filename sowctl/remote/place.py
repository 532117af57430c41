"""The place of a file: a path of this machine, or a URL.

Used wherever a place may be either. A URL of the scheme ``file`` is a path, so that local files are read directly.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from sowctl.errors import UsageError

_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes, and their names here."""


class RemotePath(Struct, frozen=True):
    """A file or directory at a URL. ``server`` is bucket, container or host, as written in the URL; ``path`` the part
    after it, without slashes at its ends; ``query`` the options of the connection, which all files of the file system
    share."""

    scheme: str
    server: str
    path: str
    query: str = ""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The extension of the name, with its dot."""
        return PurePosixPath(self.name).suffix

    def find_parent(self) -> RemotePath:
        """The parent directory."""
        return RemotePath(self.scheme, self.server, self.path.rpartition("/")[0], self.query)

    def __truediv__(self, name: str) -> RemotePath:
        """Return the place of this name (or relative path) in this directory."""
        return RemotePath(self.scheme, self.server, f"{self.path}/{name}".strip("/"), self.query)

    def __str__(self) -> str:
        """For people: without user and password, without options."""
        user, _, host = self.server.rpartition("@")
        # In an abfs URL the container, which is part of the place of a file, precedes the host.
        shown = self.server if self.scheme in ("abfs", "abfss") and ":" not in user else host
        return f"{self.scheme}://{shown}/{self.path}"

    @property
    def url(self) -> str:
        """The whole URL, including parts that are not for people."""
        return self.root + self.path + (f"?{self.query}" if self.query else "")

    @property
    def root(self) -> str:
        """The URL of the file system."""
        return f"{self.scheme}://{self.server}/"


Place: TypeAlias = Path | RemotePath
LOCAL_PATH_HINT = "give a local path, and copy files to and from the store with its own tools"


def require_local(place: Place) -> Path:
    """The path of a file that is known to be on this machine, because it is written, copied or repaired here."""
    assert isinstance(place, Path)
    return place


def is_url(text: str) -> bool:
    """True if a text names a file of another file system; URLs of the scheme ``file`` are local paths."""
    return "://" in text and not is_file_url(text)


def parse_local_path(text: str) -> Path:
    """The local path that a text denotes. Percent signs are decoded only in a URL: in a path they are literal.

    Raises UsageError ``SOW-RMT-001`` for a URL of the scheme ``file`` that names another machine, or has more than a
    path.
    """
    if not is_file_url(text):
        return Path(text)
    found = urlsplit(text)
    # In a URL the path ends at such a character: an intended path would be cut, and denote another place.
    if "?" in text or "#" in text:
        raise UsageError(
            "SOW-RMT-001",
            "a file URL cannot have a question mark or number sign",
            place=text,
            hint="in a file URL, write %3F and %23 for these characters; a path without file: can contain them",
        )
    # The text after two slashes is a host: in file://a/b a slash is missing, and /b would be another place.
    if found.netloc not in ("", "localhost"):
        raise UsageError(
            "SOW-RMT-001",
            f"the URL names the host {found.netloc!r}, but file URLs are local",
            place=text,
            hint=f"write three slashes before a path: file:///{found.netloc}{found.path}; a relative path has no file:",
        )
    return Path(unquote(found.path))


def require_local_path(text: str, hint: str = LOCAL_PATH_HINT) -> Path:
    """Return the path of a file or directory that must be on this machine: a backup, a store, a configuration.

    Raises UsageError ``SOW-RMT-001`` with ``hint`` for a URL of another file system, and as :func:`parse_local_path`.
    """
    # As a path, s3://lake/backups would be a new directory "s3:" here, in which nobody would look for a backup.
    if is_url(text):
        raise UsageError(
            "SOW-RMT-001",
            "a local path is required, not a URL",
            place=text,
            hint=hint,
        )
    return parse_local_path(text)


def is_file_url(text: str) -> bool:
    """True if a text is a URL of the scheme ``file``, which denotes a path of this machine."""
    return text[:5].lower() == "file:"


def parse_place(text: str) -> Place:
    """Parse a URL, or a path as written. Raises UsageError as :func:`parse_local_path`."""
    return parse_url(text) if is_url(text) else parse_local_path(text)


def resolve_place(root: Path, text: str) -> Place:
    """Parse a place; a relative path is relative to ``root``."""
    found = parse_place(text)
    return root / found if isinstance(found, Path) else found


def parse_url(text: str) -> RemotePath:
    """Parse a URL; a path becomes one of the scheme ``file``. Raises UsageError as
    :func:`parse_local_path`.
    """
    if not is_url(text):
        return RemotePath("file", "", str(parse_local_path(text).absolute()).strip("/"))
    scheme, _, rest = text.partition("://")
    # Not urlsplit: a key may contain "#", and keys of object stores are literal.
    location, _, query = rest.partition("?")
    server, _, path = location.partition("/")
    return RemotePath(_SCHEME_ALIASES.get(scheme.lower(), scheme.lower()), server, path.strip("/"), query)
