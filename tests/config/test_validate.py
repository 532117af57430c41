"""validate over files: one defect each, the samples, and configurations found in the wild."""

from __future__ import annotations

import csv
import os
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.config.load import read_document
from sowctl.config.validate import inspect_config, validate_config
from sowctl.errors import ConfigError
from sowctl.findings import Level
from tests.support.examples import examples

BAD = Path(__file__).parent / "bad"
SEEDS = Path(__file__).parents[2] / "samples" / "seeds"
Write = Callable[..., Path]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def defects() -> list[tuple[Path, dict[str, str]]]:
    """The files of one defect each: those here, and those of every directory in SOWCTL_CONFIG_CASES."""
    more = [Path(name) for name in os.environ.get("SOWCTL_CONFIG_CASES", "").split(os.pathsep) if name]
    return [(place / row["file"], row) for place in (BAD, *more) for row in rows(place / "expected.tsv")]


def lines_of(row: dict[str, str]) -> set[str]:
    """The lines that a row of the table accepts; for text that is not well-formed, also according to its reason."""
    line = int(row["line"])
    following = line + 1 if "or the following" in row["reason"] else line
    return {str(number) for number in range(line, following + 1)}


@pytest.mark.parametrize(("path", "row"), defects(), ids=lambda value: value.stem if isinstance(value, Path) else "")
def test_one_defect_each(path: Path, row: dict[str, str]) -> None:
    findings = inspect_config(path, environment={})
    errors = {finding.id for finding in findings if finding.level is Level.ERROR}
    if row["rule"] == "-":
        assert not errors
        return
    own = [finding for finding in findings if finding.id == row["rule"]]
    anywhere = "accept any line" in row["reason"]
    found = [finding for finding in own if anywhere or str(finding.place.line) in lines_of(row)]
    assert found, findings
    assert found[0].level.name.lower() == row["severity"]
    if row["path"].startswith("/") and row["rule"] not in ("X001", "X014", "S003"):
        assert re.sub(r"\[\d+\]", "", found[0].place.element or "") == re.sub(r"\[\d+\]", "", row["path"])
    # One defect is one error: nothing else is reported.
    assert errors <= {row["rule"]}
    assert found[0].excerpt is None or "^" in found[0].excerpt


def expected_of_samples() -> dict[str, list[tuple[str, str, str]]]:
    expected: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for row in rows(SEEDS / "expected.tsv"):
        expected[row["file"]].extend([(row["rule"], row["level"], row["line"])] if row["rule"] != "-" else [])
    return expected


@pytest.mark.parametrize(("name", "expected"), expected_of_samples().items())
def test_samples(name: str, expected: list[tuple[str, str, str]]) -> None:
    findings = inspect_config(SEEDS / name, environment={"RECOVER_FROM": "2026-01-02T03:04:05Z"})
    told = [(f.id, f.level.name.lower(), str(f.place.line)) for f in findings]
    assert sorted(told) == sorted(expected)


def test_every_sample_is_expected() -> None:
    assert {path.name for path in SEEDS.glob("*.xml")} == set(expected_of_samples())


# Errors that are correct, reviewed individually; all other files have none.
REAL = {
    "60East__comparison-rabbitmq__1.xml": {"X009"},
    "FindevGlobal__spring-cloud-stream-amps__2.xml": {"S001"},
    "Thejuampi__amps-client-go__1.xml": {"X006"},
    "Thejuampi__amps-client-go__2.xml": {"S005", "S006", "S008"},
    "Thejuampi__amps-client-go__3.xml": {"S002"},
    "crazymatthsu__amps-demo__4.xml": {"S057"},
    "jpothanc__developer-notes__1.xml": {"X001"},
    "jpothanc__developer-notes__2.xml": {"X001"},
    "jpothanc__developer-notes__3.xml": {"X001"},
}


def test_configurations_in_the_wild(shared: Path) -> None:
    files = sorted((shared / "conformance/configs/real").glob("*.xml"))
    assert files
    for file in files:
        findings = validate_config(file, environment={}, fragment="FindevGlobal" in file.name)
        assert {finding.id for finding in findings} == REAL.get(file.name, set()), (file.name, findings)


def test_several_errors_come_in_the_order_of_the_file(instance: Write) -> None:
    path = instance(
        "<Topic><Name>a</Name><MessageType>json</MessageType><SlabSize>2GB</SlabSize></Topic>\n"
        "<Topic><Name>b</Name><MessageType>jsn</MessageType><FileName>b</FileName><Key>id</Key></Topic>"
    )
    findings = validate_config(path, environment={})
    assert [(f.id, f.place.line, f.place.column) for f in findings] == [
        ("S022", 4, 1),
        ("S040", 4, 53),
        ("R001", 5, 22),
        ("S034", 5, 74),
    ]
    assert findings[2].hint == "did you mean json?"


def test_an_error_in_a_filter_points_into_the_xml(instance: Write) -> None:
    path = instance(
        "<Topic><Name>a</Name><MessageType>json</MessageType><FileName>a</FileName></Topic>\n"
        "<ConflatedTopic><Name>c</Name><MessageType>json</MessageType><UnderlyingTopic>a</UnderlyingTopic>\n"
        "  <Filter>/qty &gt; 10 AND\n          LENGHT(/a) = 1</Filter></ConflatedTopic>"
    )
    (finding,) = validate_config(path, environment={})
    assert (finding.id, finding.place.line, finding.place.column) == ("S035", 7, 11)
    assert finding.message.startswith("Filter: ") and finding.message.endswith(" LENGHT (did you mean LENGTH?)")
    assert finding.excerpt == "            LENGHT(/a) = 1</Filter></ConflatedTopic>\n            ^"


def test_functions_of_modules_are_known(instance: Write) -> None:
    topic = (
        "<Topic><Name>a</Name><MessageType>json</MessageType><FileName>a</FileName>"
        "<Enrichment><Field>my_add(/a, 1) AS /b</Field></Enrichment></Topic>"
    )
    module = "<Modules><Module><Name>m</Name><Library>l.so</Library></Module></Modules>"
    function = "<Function><Name>MY_ADD</Name><Module>m</Module><Symbol>f</Symbol>{}</Function>"

    def ids(declared: str) -> list[str]:
        top = f"{module}<UserDefinedFunctions>{declared}</UserDefinedFunctions>"
        return [finding.id for finding in validate_config(instance(topic, top=top), environment={})]

    assert ids("") == ["S036"]
    assert ids(function.format("")) == []
    assert ids(function.format("<ParameterCount>2</ParameterCount>")) == []
    assert ids(function.format("<ParameterCount>3</ParameterCount>")) == ["S036"]


def test_findings_name_the_included_file(write: Write) -> None:
    write("<Topic><Name>a</Name>\n<MessageType>json</MessageType></Topic>", "a.xml")
    path = write("<AMPSConfig><Name>x</Name><SOW><Include>a.xml</Include></SOW></AMPSConfig>")
    (finding,) = validate_config(path, environment={})
    assert (finding.id, Path(finding.place.file).name, finding.place.line) == ("S022", "a.xml", 1)
    assert "<Topic>" in (finding.excerpt or "")


def test_a_fragment_needs_no_name(write: Write) -> None:
    path = write("<Topic><Name>a</Name><MessageType>json</MessageType></Topic>")
    assert [finding.id for finding in validate_config(path, environment={}, fragment=True)] == ["S022"]
    assert [finding.id for finding in validate_config(path, environment={})] == ["X005"]


GOOD = (BAD / "00-control-good.xml").read_bytes()
PIECES = [
    *(b"<", b">", b"&", b"=", b"'", b'"', b"(", b"\r", b"\xff", b"\x00", b"&#0;", b"9" * 400),
    *(b"</Topic>", b"<Topic>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE a>"),
    *(b"${A}", b"${", b"<Include>x</Include>", b"[json]."),
]


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(GOOD)), st.integers(0, 40), st.sampled_from([b"", *PIECES]) | st.binary(max_size=4)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_mutated_files_are_judged_and_never_crash(tmp_path: Path, edits: list[tuple[int, int, bytes]]) -> None:
    data = GOOD
    for position, removed, added in edits:
        data = data[:position] + added + data[position + removed :]
    path = tmp_path / "mutated.xml"
    path.write_bytes(data)
    findings = inspect_config(path, environment={})
    try:
        read_document(path, environment={})
    except ConfigError as error:
        assert any(finding.level is Level.ERROR for finding in findings)
        assert error.exit_status == 4
    for finding in findings:
        assert finding.place.line is None or finding.place.line <= data.count(b"\n") + data.count(b"\r") + 1


@pytest.mark.parametrize(
    ("library", "known"),
    [("/opt/lib/libudf_legacy_compatibility.so", True), ("/opt/udf_legacy_compatibility/x.so", False)],
)
def test_a_library_is_known_by_its_file_name(write: Write, library: str, known: bool) -> None:
    text = (
        f"<AMPSConfig><Name>x</Name><Modules><Module><Name>udf</Name><Library>{library}</Library></Module></Modules>"
        "<SOW><Topic><Name>t</Name><MessageType>json</MessageType><Key>/k</Key><FileName>t.sow</FileName>"
        "<Enrichment><Field>YEAR(/at) AS /year</Field></Enrichment></Topic></SOW></AMPSConfig>"
    )
    assert (validate_config(write(text), environment={}) == []) == known


def test_an_expression_that_is_too_long_is_not_parsed(write: Write) -> None:
    text = (
        (
            "<AMPSConfig><Name>x</Name><SOW><Topic><Name>t</Name><MessageType>json</MessageType><Key>/k</Key>"
            f"<FileName>t.sow</FileName><Enrichment><Field>{' ' * (1 << 18)}/a AS /b</Field></Enrichment></Topic></SOW>"
            "</AMPSConfig>"
        )
        .replace("  /a", "+ /a")
        .replace("<Field> ", "<Field>1")
    )
    (finding,) = validate_config(write(text), environment={})
    assert finding.id == "S036" and "262144 characters" in finding.message
