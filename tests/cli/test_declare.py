"""The declarations of commands are read as Python itself reads them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from sowctl.cli.parsing import loader, table
from sowctl.cli.parsing.parameters import Parameter, build_arguments, fold_flags, read_parameters
from sowctl.declarations import Argument, Option, declare_option, declare_part, list_given_options, list_option_texts
from sowctl.errors import UsageError


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.page)
def test_parameters_are_those_that_python_sees(command: table.Command) -> None:
    kind = loader.load_command(command).arguments
    read = {one.name: one for one in read_parameters(kind) if one.stands_for is None}
    seen = dict(_see_options(kind))
    assert list(read) == list(seen)
    for name, (base, declared, default) in seen.items():
        parameter = read[name]
        if not (get_origin(base) is Literal or Literal in map(get_origin, get_args(base))):
            assert parameter.declared == declared
        assert parameter.required == (default is NODEFAULT)
        if not parameter.required and not parameter.switches_off:
            assert parameter.default == (default or None if isinstance(default, tuple) else default)
        assert parameter.shape == _shape(base, declared)


def _see_options(kind: type[Struct], only: tuple[str, ...] | None = None) -> list[tuple[str, tuple[Any, ...]]]:
    hints, found = get_type_hints(kind, include_extras=True), []
    known = {field.name: field for field in fields(kind)}
    for name in only or tuple(known):
        base, *declared = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
        if isinstance(base, type) and issubclass(base, Struct):
            found += _see_options(base, declared[0].fields if declared else None)
        elif declared:
            found.append((name, (base, declared[0], known[name].default)))
    return found


def _shape(base: object, declared: Option | Argument) -> str:
    if declared.unit:
        return "texts" if declared.unit == "keys" else "text"
    counted = isinstance(declared, Option) and declared.counted
    kinds = {bool: "flag", int: "count" if counted else "number", str: "text"}
    kinds |= {list[str]: "texts", tuple[str, ...]: "texts"}  # type: ignore[dict-item]  # types as keys
    return next((kinds[one] for one in (base, *get_args(base)) if one in kinds), "text")


class Inner(Struct, frozen=True):
    """A part with a flag, a size, an interval, keys and paths."""

    sow: Annotated[bool, declare_option("--no-sow", help="without")] = True
    memory: Annotated[int, declare_option("--memory", help="how much", unit="bytes")] = 1 << 20
    wait: Annotated[float | None, declare_option("--wait", help="how long", unit="seconds")] = None
    keys: Annotated[tuple[str, ...] | None, declare_option("--key", help="which", unit="keys")] = None
    fields: Annotated[tuple[str, ...], declare_option("--only", help="which", unit="paths")] = ()
    names: Annotated[tuple[str, ...], declare_option("--name", help="which")] = ()
    word: Annotated[Literal["a", "b"], declare_option("--word", help="which", option_text="word")] = "a"
    filter: Annotated[str | None, declare_option("--filter", help="which", operand="FILTER")] = None
    unseen: int = 3


First: TypeAlias = Annotated[str, Argument("ONE", "the first")]


class Outer(Struct, frozen=True, kw_only=True):
    """Arguments of an artificial command."""

    one: First
    inner: Inner


def _build(values: dict[str, Any]) -> Outer:
    parameters = read_parameters(Outer)
    given = {one.name: values.get(one.name, one.default) for one in parameters}
    built = build_arguments(Outer, parameters, fold_flags(parameters, given))
    assert isinstance(built, Outer)
    return built


def test_parts_are_built_of_what_is_given() -> None:
    assert _build({"one": "x"}) == Outer(one="x", inner=Inner())
    given = {"memory": "2MB", "wait": "1m", "keys": ["1,2", "3"], "fields": "/a, /b", "names": ["n,m"]}
    wanted = Inner(memory=2 << 20, wait=60.0, keys=("1", "2", "3"), fields=("/a", "/b"), names=("n,m",))
    assert _build({"one": "x", **given}).inner == wanted
    assert _build({"one": "x", "sow": True}).inner == Inner(sow=False)
    for wrong in ({"memory": "2XB"}, {"wait": "soon"}):
        with pytest.raises(UsageError) as refused:
            _build({"one": "x", **wrong})
        assert refused.value.code == "SOW-CLI-022"


def test_an_operand_stands_for_its_option() -> None:
    assert _build({"one": "x", "filter_operand": "/a = 1"}).inner.filter == "/a = 1"
    with pytest.raises(UsageError) as refused:
        _build({"one": "x", "filter_operand": "/a = 1", "filter": "/a = 1"})
    assert refused.value.code == "SOW-CLI-013"


def test_a_part_may_have_some_options_only() -> None:
    class Some(Struct, frozen=True, kw_only=True):
        inner: Annotated[Inner, declare_part("wait", "sow")]

    globals()["Some"] = Some
    assert [one.name for one in read_parameters(Some)] == ["wait", "sow"]


def test_what_is_given_and_what_a_text_may_set() -> None:
    assert list_given_options(Inner()) == []
    assert list_given_options(Inner(sow=False, word="b", unseen=4)) == ["--no-sow", "--word"]
    assert {name: field.name for name, field in list_option_texts(Inner).items()} == {"word": "word"}


def test_a_default_is_written_as_it_is_given() -> None:
    written = {one.name: one.format_default() for one in read_parameters(Inner)}
    assert (written["memory"], written["word"], written["wait"], written["sow"]) == ("1MB", "a", "", "")


def test_a_name_is_taken_once() -> None:
    one = Parameter("one", Argument("ONE", "the first"), "text", True, None)
    with pytest.raises(AssertionError, match="is taken"):
        read_parameters(Outer, [one])


class Written(Struct, frozen=True):
    """Arguments with a format."""

    format: Annotated[str | None, declare_option("--format", help="how", choices=("ndjson", "json"))] = None


def test_json_stands_for_a_format() -> None:
    read = read_parameters(Written)
    assert [parameter.name for parameter in read] == ["format", "json"]
    assert fold_flags(read, {"format": None, "json": True}) == {"format": "json"}
    assert fold_flags(read, {"format": "json", "json": True}) == {"format": "json"}
    assert fold_flags(read, {"format": "ndjson", "json": False}) == {"format": "ndjson"}
    with pytest.raises(UsageError, match=r"--json .*--format ndjson") as refused:
        fold_flags(read, {"format": "ndjson", "json": True})
    assert refused.value.code == "SOW-CLI-012"
