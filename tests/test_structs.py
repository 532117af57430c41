"""Every Struct of the package can be described: ``inspect.signature`` and ``help()`` work for all of them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import pydoc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import Struct, field

import sowctl
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from somewhere import Unknown


class Plain(Struct):
    """What msgspec itself can describe: every kind of default."""

    first: int
    listed: list[int] = field(default_factory=list)
    empty: dict[str, int] = {}
    last: str = "x"


class PlainMore(Plain, kw_only=True):
    needed: int
    given: bool = False


class Described(DescribedStruct):
    """The same fields, one of a type that is not there."""

    first: Unknown
    listed: list[int] = field(default_factory=list)
    empty: dict[str, int] = {}  # noqa: RUF012
    last: str = "x"


class DescribedMore(Described, kw_only=True):
    needed: int
    given: bool = False


def _all_structs() -> list[type[Struct]]:
    """The Structs of every module of the package whose libraries are installed."""
    for module in pkgutil.walk_packages(sowctl.__path__, "sowctl."):
        if module.name.endswith(".__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:
            assert (missing.name or "").partition(".")[0] in {"pyspark", "pyarrow", "bson", "google", "grpc_tools"}

    def below(kind: type) -> Iterator[type]:
        for one in kind.__subclasses__():
            yield one
            yield from below(one)

    return [one for one in below(Struct) if one.__module__.partition(".")[0] == "sowctl"]


def test_every_struct_of_the_package_can_be_described() -> None:
    structs = _all_structs()
    assert len(structs) > 200
    failed = {}
    for one in structs:
        try:
            parameters = inspect.signature(one).parameters
            assert list(parameters) == list(one.__struct_fields__)
            pydoc.render_doc(one)
        except (NameError, TypeError) as error:
            failed[f"{one.__module__}.{one.__qualname__}"] = str(error)
    assert failed == {}, "derive these from sowctl.structs.DescribedStruct"


def test_help_for_what_open_returns(tmp_path: Path) -> None:
    config = tmp_path / "sowctl.xml"
    config.write_text("<AMPSConfig><Name>i</Name></AMPSConfig>")
    shown = pydoc.plain(pydoc.render_doc(sowctl.open(config)))
    assert "config: 'InstanceConfig | None' = None" in shown
    assert "topic(self, name" in shown


@pytest.mark.parametrize(("plain", "described"), [(Plain, Described), (PlainMore, DescribedMore)])
def test_names_kinds_and_defaults_are_those_of_msgspec(plain: type[Struct], described: type[Struct]) -> None:
    expected = inspect.signature(plain).parameters.values()
    found = inspect.signature(described).parameters.values()
    assert [(one.name, one.kind, repr(one.default)) for one in found] == [
        (one.name, one.kind, repr(one.default)) for one in expected
    ]
    assert next(iter(found)).annotation == "Unknown"
