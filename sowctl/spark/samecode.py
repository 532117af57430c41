"""Check that executors run the same code as the driver (sowctl-spark(7), ON A CLUSTER).

Readers and writers are sent to executors as pickles of Python objects, which only the same code interprets correctly:
another release could fail anywhere or read wrong data. So each pickle contains the identity of the code that wrote it,
and a function that checks it. That function is pickled by value and needs no sowctl on the executor, so an executor
without sowctl or with an older release is reported. Data sources, their readers and writers inherit
:class:`SameCode`; the jobs check before they start (:mod:`sowctl.spark.jobs.visibility`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZipFile

from sowctl.version import VERSION

CodeIdentity: TypeAlias = "tuple[str, str]"
"""The version of a release, and the digest of its modules."""


@cache
def identify_code() -> CodeIdentity:
    """Return the identity of the code that this process runs."""
    return VERSION, digest_package(Path(__file__).parents[1])


def digest_package(package: Path) -> str:
    """Compute a digest of the names and sizes of a package's modules, in a directory or a zip archive.

    It distinguishes installations without reading the files, in 4 ms; releases differ in hundreds of sizes.
    """
    found = _in_directory(str(package), "") if package.is_dir() else _in_archive(package)
    return blake2b("\n".join(sorted(found)).encode(), digest_size=8).hexdigest()


def _in_directory(directory: str, before: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield f"{before}{entry.name} {entry.stat().st_size}"
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _in_directory(entry.path, f"{before}{entry.name}/")


def _in_archive(package: Path) -> Iterator[str]:
    before = f"{package.name}/"
    with ZipFile(package.parent) as archive:
        for one in archive.infolist():
            if one.filename.startswith(before) and one.filename.endswith(".py"):
                yield f"{one.filename.removeprefix(before)} {one.file_size}"


class SameCode:
    """Base class of objects that are sent to executors and may be unpickled only by the same code."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the object into bytes that :func:`unpack_object` unpickles after comparing the code."""
        return unpack_object, (identify_code(), _cloudpickle().dumps((type(self), self.__dict__)))


def require_code(made_by: CodeIdentity) -> None:
    """Raise RuntimeError if this process does not run the code ``made_by``: SOW-SPK-166, as a carried error's text.

    The function is pickled by value, so it imports everything that it needs itself.
    """
    import os
    import socket

    try:
        from sowctl.spark.samecode import identify_code
    except ImportError:
        try:
            from sowctl.version import VERSION
        except ImportError:
            found = "have no sowctl"
        else:
            found = f"run an older sowctl {VERSION}"
    else:
        here = identify_code()
        if here == made_by:
            return
        found = f"run sowctl {here[0]} (modules {here[1]})"
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        # The worker process ends with this error, and its traceback would not help the user.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    raise RuntimeError(
        f"SOW-SPK-166: on {socket.gethostname()}, the executors {found}, but the driver runs "
        f"sowctl {made_by[0]} (modules {made_by[1]})\n  hint: pack the environment of the "
        "driver again for the executors, or use the command line of sowctl pipeline "
        "submit-args, which sends it\n  status: 4"
    )


def unpack_object(made_by: CodeIdentity, packed: bytes) -> Any:
    """Unpickle the result of :meth:`SameCode.__reduce__`. Raises as :func:`require_code`; also pickled by value."""
    import pickle

    require_code(made_by)
    kind, state = pickle.loads(packed)
    made = object.__new__(kind)
    made.__dict__.update(state)
    return made


def _cloudpickle() -> Any:
    """Return the module with which pyspark pickles functions."""
    from pyspark import cloudpickle

    return cloudpickle


# Pickle the functions of this module by value, because executors may lack the module.
_cloudpickle().register_pickle_by_value(sys.modules[__name__])
