"""The law of the fast argument parser: if it accepts a command line, its result is that of Typer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.cli.parsing import application, arguments
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.parameters import Parameter, parse_number
from sowctl.cli.parsing.table import COMMANDS
from sowctl.declarations import Option
from sowctl.errors import UsageError
from tests.support.examples import examples

PLAIN = st.sampled_from(
    ["x", "orders", "", "-", "/a = 'b'", "Zoë", "a=b", "5", "-5", "0", "text", "json", "bash", "skip"]
)


def words_of(parameters: tuple[Parameter, ...]) -> st.SearchStrategy[list[str]]:
    """Command lines from this command's options, joined in all spellings, with operands and with mistakes."""
    pieces: list[st.SearchStrategy[list[str]]] = [PLAIN.map(lambda word: [word])] * 4
    pieces.append(st.sampled_from([["--"], ["--nope"], ["-Z"], ["--config"]]))
    for parameter in parameters:
        if not isinstance(parameter.declared, Option):
            continue
        values = st.sampled_from(parameter.declared.choices) if parameter.declared.choices else PLAIN
        for name in parameter.declared.names:
            if not parameter.takes_value:
                pieces += [st.just([name]), st.just([name + "q" if name[1] != "-" else name])]
            else:
                joint = "=" if name.startswith("--") else ""
                pieces.append(values.map(lambda value, name=name: [name, value]))
                pieces.append(values.map(lambda value, name=name, joint=joint: [name + joint + value]))
    needed = [word for parameter in parameters if parameter.required for word in _one(parameter)]
    anything = st.lists(st.one_of(pieces), max_size=5).map(lambda parts: [word for part in parts for word in part])
    return st.one_of(anything, anything.map(lambda words: [*needed, *words]))


def _one(parameter: Parameter) -> list[str]:
    value = parameter.declared.choices[0] if parameter.declared.choices else "orders"
    return [parameter.declared.names[0], value] if isinstance(parameter.declared, Option) else [value]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.page)
def test_agrees_with_typer(command: object, deep: bool) -> None:
    loaded = load_command(command)  # type: ignore[arg-type]
    answered = []

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(words_of(loaded.parameters))
    def law(words: list[str]) -> None:
        quick = arguments.read_plain(loaded.parameters, words)
        if quick is not None:
            answered.append(words)
            assert quick == application.read_with_typer("sowctl", loaded.parameters, words)

    law()
    # A few command lines, drawn at random, may all be left to Typer.
    assert answered or not deep, "the quick reader never answered"


def test_what_it_leaves_to_typer() -> None:
    parameters = load_command(COMMANDS[1]).parameters
    for words in (["--help"], [], ["o", "--top-n"], ["o", "--top-n", "1.5"], ["o", "--count=x"], ["o", "-F", "yaml"]):
        assert arguments.read_plain(parameters, words) is None


def test_typer_refuses_with_a_usage_error() -> None:
    parameters = load_command(COMMANDS[1]).parameters
    with pytest.raises(UsageError) as caught:
        application.read_with_typer("sowctl query", parameters, ["o", "--top-n", "-1"])
    assert caught.value.code == "SOW-CLI-003"
    assert application.read_with_typer("sowctl query", parameters, ["o", "-n", "+7"]) is not None


NUMBERS = [
    (command.page, parameter)
    for command in COMMANDS
    for parameter in load_command(command).parameters
    if parameter.shape == "number"
]


@pytest.mark.parametrize(("page", "parameter"), NUMBERS, ids=lambda one: getattr(one, "name", one))
def test_every_number_has_bounds_and_its_refusal_names_them(page: str, parameter: Parameter) -> None:
    declared = parameter.declared
    assert isinstance(declared, Option)
    for within in (declared.minimum, declared.maximum):
        assert parse_number(declared, str(within)) == within
    for outside in (
        declared.minimum - 1,
        declared.maximum + 1,
        2**64,
        "9" * 5000,
        "1.5",
        "",
        "x",
        "1_0",
        "\N{ARABIC-INDIC DIGIT ONE}",
    ):
        with pytest.raises(ValueError, match=f"from {declared.minimum} to {declared.maximum}$"):
            parse_number(declared, str(outside))


def test_sequences_and_txids_have_64_bits() -> None:
    bounds = {(page, one.name): one.declared.maximum for page, one in NUMBERS if isinstance(one.declared, Option)}
    wide = {name for name, most in bounds.items() if most == 2**64 - 1}
    assert {name for _, name in wide} == {"sequence", "txid"} and len(wide) == 3
