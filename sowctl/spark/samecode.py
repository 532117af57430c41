"""Executors run the code that the driver runs (sowctl-spark(7), ON A CLUSTER).

Readers and writers travel as what Python has in memory, which only the same code takes for what it is: another release
would fail anywhere, or read something else. So what travels says which code made it, and is opened by a function that
travels with it and needs no sowctl where it arrives: an executor that has none, or an older one, is named as that.
Data sources, their readers and writers inherit :class:`SameCode`; the jobs ask before they begin
(:mod:`sowctl.spark.jobs.visibility`).
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
"""A release, and the digest of its modules."""


@cache
def identify_code() -> CodeIdentity:
    """The code of this process."""
    return VERSION, digest_package(Path(__file__).parents[1])


def digest_package(package: Path) -> str:
    """The digest of the names and sizes of a package's modules, in a directory or in an archive of such.

    It tells one installation from another without reading them, in 4 ms; releases differ in hundreds of sizes.
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
    """Base of objects that travel to executors, and that only the same code unpacks."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pack the object into bytes that are unpacked when the code has been compared."""
        return unpack_object, (identify_code(), _cloudpickle().dumps((type(self), self.__dict__)))


def require_code(made_by: CodeIdentity) -> None:
    """Raise where this process has other code than ``made_by`` says: code SOW-SPK-166, as a text that is carried.

    It travels by itself, with what stands in it and nothing else of this module.
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
        # The worker ends with this error, and where it was raised is of no use.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    raise RuntimeError(
        f"SOW-SPK-166: on {socket.gethostname()}, the executors {found}, but the driver runs "
        f"sowctl {made_by[0]} (modules {made_by[1]})\n  hint: pack the environment of the "
        "driver again for the executors, or use the command line of sowctl pipeline "
        "submit-args, which sends it\n  status: 4"
    )


def unpack_object(made_by: CodeIdentity, packed: bytes) -> Any:
    """Unpack what :meth:`SameCode.__reduce__` has packed. Raises as :func:`require_code`, and travels as it does."""
    import pickle

    require_code(made_by)
    kind, state = pickle.loads(packed)
    made = object.__new__(kind)
    made.__dict__.update(state)
    return made


def _cloudpickle() -> Any:
    """Return the module by which pyspark sends its functions."""
    from pyspark import cloudpickle

    return cloudpickle


# The functions here are sent as they are, and not by their names.
_cloudpickle().register_pickle_by_value(sys.modules[__name__])
