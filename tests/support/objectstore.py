"""An object store for tests: enough of S3's protocol for Arrow's own client, which is that of AWS.

Objects are in a dictionary, so that a test can damage, remove or refuse one, and requests are counted. The fixture
``lake`` is one; ``tests/remote/test_elsewhere.py`` runs the same tests with a real store, if one is configured.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

KEY = "testing"
BUCKET = "lake"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_SPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class ObjectStore(ThreadingHTTPServer):
    """The store. ``objects`` by bucket/key; ``requests`` counts by method and key; ``refused`` keys are denied."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.buckets = {BUCKET}
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.refused: set[str] = set()

    def empty(self) -> None:
        """Reset the store."""
        self.objects.clear()
        self.uploads.clear()
        self.requests.clear()
        self.refused.clear()

    @property
    def endpoint(self) -> str:
        """``http://host:port``."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def url(self, path: str = "") -> str:
        """Return the URL of a path in the bucket, as a user with an own endpoint writes it."""
        host = f"127.0.0.1:{self.server_address[1]}"
        return f"s3://{BUCKET}/{path}?endpoint_override={host}&scheme=http"

    def names(self, prefix: str = "") -> list[str]:
        """Return the keys of the bucket below a prefix."""
        start = f"{BUCKET}/{prefix}"
        return sorted(key.removeprefix(start) for key in self.objects if key.startswith(start))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A response is two small writes, and the second one would wait 40 ms for the client to acknowledge the first.
    disable_nagle_algorithm = True
    server: ObjectStore

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.key = unquote(parts.path).lstrip("/")
        body = self._body()
        self.server.requests.append((self.command, self.key))
        bucket, _, name = self.key.partition("/")
        if f"Credential={KEY}/" not in self.headers.get("Authorization", "") or self.key in self.server.refused:
            self._fail(403, "AccessDenied", "Access Denied")
        elif bucket not in self.server.buckets:
            self._fail(404, "NoSuchBucket", "The specified bucket does not exist")
        elif not name:
            self._bucket(bucket, body)
        else:
            {"HEAD": self._get, "GET": self._get, "PUT": self._put, "POST": self._post, "DELETE": self._delete}[
                self.command
            ](body)

    def _bucket(self, bucket: str, body: bytes) -> None:
        if self.command == "GET":
            self._list(bucket)
        elif self.command == "POST" and "delete" in self.query:
            for key in re.findall(rb"<Key>([^<]*)</Key>", body):
                self.server.objects.pop(f"{bucket}/{unescape(key.decode())}", None)
            self._send(200, f"<DeleteResult {_SPACE}></DeleteResult>".encode())
        else:
            self._send(200)

    def _list(self, bucket: str) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        rows, folders = [], set()
        for key, content in sorted(self.server.objects.items()):
            name = key.partition("/")[2]
            if not key.startswith(f"{bucket}/") or not name.startswith(prefix):
                continue
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                rows.append(
                    f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size>"
                    f"<LastModified>{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>"
                )
        rows += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)]
        # As in S3, a response has a maximum number of names, and a token to continue.
        start, most = int(self.query.get("continuation-token", "0")), min(1000, int(self.query.get("max-keys", "1000")))
        shown, cut = rows[start : start + most], start + most < len(rows)
        count = f"<KeyCount>{len(shown)}</KeyCount><IsTruncated>{str(cut).lower()}</IsTruncated>"
        if cut:
            count += f"<NextContinuationToken>{start + most}</NextContinuationToken>"
        self._send(200, f"<ListBucketResult {_SPACE}>{count}{''.join(shown)}</ListBucketResult>".encode())

    def _get(self, body: bytes) -> None:
        content = self.server.objects.get(self.key)
        if content is None:
            self._fail(404, "NoSuchKey", "The specified key does not exist.")
            return
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, stop = int(found[1]), int(found[2] or len(content) - 1)
            part = content[start : stop + 1]
            self._send(206, part, {"Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(content)}"})
        else:
            self._send(200, content)

    def _put(self, body: bytes) -> None:
        source = self.headers.get("x-amz-copy-source")
        if source is not None:
            copied_from = self.server.objects.get(unquote(source).lstrip("/"))
            if copied_from is None:
                self._fail(404, "NoSuchKey", "The specified key does not exist.")
                return
            body = copied_from
        if "uploadId" in self.query:
            self.server.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = body
        else:
            self.server.objects[self.key] = body
        tag = md5(body).hexdigest()
        copied = f'<CopyObjectResult {_SPACE}><ETag>"{tag}"</ETag></CopyObjectResult>'.encode() if source else b""
        self._send(200, copied, {"ETag": f'"{tag}"'})

    def _post(self, body: bytes) -> None:
        if "uploads" in self.query:
            name = os.urandom(8).hex()
            self.server.uploads[name] = {}
            made = f"<UploadId>{name}</UploadId>"
            self._send(200, f"<InitiateMultipartUploadResult {_SPACE}>{made}</InitiateMultipartUploadResult>".encode())
        else:
            parts = self.server.uploads.pop(self.query["uploadId"])
            self.server.objects[self.key] = b"".join(parts[number] for number in sorted(parts))
            done = '<ETag>"whole"</ETag>'
            self._send(200, f"<CompleteMultipartUploadResult {_SPACE}>{done}</CompleteMultipartUploadResult>".encode())

    def _delete(self, body: bytes) -> None:
        if "uploadId" in self.query:
            self.server.uploads.pop(self.query["uploadId"], None)
        else:
            self.server.objects.pop(self.key, None)
        self._send(204)

    def _body(self) -> bytes:
        """Return the request body: in HTTP chunks or by its length, within that in AWS chunks with checksums."""
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            body = b"".join(parts)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        parts, at = [], 0
        while True:
            end = body.index(b"\r\n", at)
            if not (size := int(body[at:end].partition(b";")[0], 16)):
                return b"".join(parts)
            parts.append(body[end + 2 : end + 2 + size])
            at = end + 2 + size + 2

    def _fail(self, status: int, code: str, message: str) -> None:
        self._send(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/xml" if body.startswith(b"<") else "application/octet-stream")
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serving() -> Iterator[ObjectStore]:
    """Run a store until the end of the block."""
    store = ObjectStore()
    thread = threading.Thread(target=store.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        store.shutdown()
        store.server_close()
        thread.join()
