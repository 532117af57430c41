"""What commands declare is read as Python itself reads it."""

from __future__ import annotations

import inspect
from typing import Annotated, TypeAlias, get_args, get_type_hints

import pytest

from sowctl.cli.parsing import declarations, loader, table
from sowctl.errors import UsageError


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.page)
def test_parameters_are_those_that_python_sees(command: table.Command) -> None:
    run = loader.load_command(command).run
    hints = get_type_hints(run, include_extras=True)
    seen = {name: one for name, one in inspect.signature(run).parameters.items() if name != "invocation"}
    read = {
        parameter.name: parameter for parameter in declarations.read_parameters(run) if parameter.stands_for is None
    }
    assert list(read) == list(seen)
    for name, parameter in read.items():
        base, declared = get_args(hints[name])
        assert parameter.declared == declared
        assert parameter.required == (seen[name].default is inspect.Parameter.empty)
        assert parameter.default == (None if parameter.required else seen[name].default)
        assert parameter.shape == _shape(base, declared)


def _shape(base: object, declared: declarations.Option | declarations.Argument) -> str:
    counted = isinstance(declared, declarations.Option) and declared.counted
    shapes = {bool: "flag", int: "count" if counted else "number", str: "text", list[str]: "texts"}
    return next(shapes[one] for one in (base, *get_args(base)) if one in shapes)


First: TypeAlias = Annotated[str, declarations.Argument("ONE", "the first")]
Second: TypeAlias = Annotated[int | None, declarations.declare_option("--two", help="the second")]


def run(invocation: object, one: First, *, two: Second = 2) -> None:
    """A command of no use."""


def test_keywords_count_and_a_name_is_taken_once() -> None:
    one, two = declarations.read_parameters(run)
    assert (one.name, one.shape, one.required) == ("one", "text", True)
    assert (two.name, two.shape, two.required, two.default) == ("two", "number", False, 2)
    with pytest.raises(AssertionError, match="is taken"):
        declarations.read_parameters(run, [one])


Written: TypeAlias = Annotated[
    str | None, declarations.declare_option("--format", help="how", choices=("ndjson", "json"))
]


def show(invocation: object, format: Written = None) -> None:
    """A command with a format."""


def test_json_stands_for_a_format() -> None:
    read = declarations.read_parameters(show)
    assert [parameter.name for parameter in read] == ["format", "json"]
    assert declarations.fold_flags(read, {"format": None, "json": True}) == {"format": "json"}
    assert declarations.fold_flags(read, {"format": "json", "json": True}) == {"format": "json"}
    assert declarations.fold_flags(read, {"format": "ndjson", "json": False}) == {"format": "ndjson"}
    with pytest.raises(UsageError, match="--json and --format ndjson exclude each other") as refused:
        declarations.fold_flags(read, {"format": "ndjson", "json": True})
    assert refused.value.code == "SOW-CLI-012"
