"""Directories of files, their order, and the partition columns in their paths."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.arrow.inputs.partitions import build_order_key, list_directory_files, read_partitions
from sowctl.errors import InputError
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("path", "roots", "found"),
    [
        ("/lake/day=2026-01-01/a.csv", (), {"day": "2026-01-01"}),
        ("/lake/day=2026-01-01/hour=07/a.csv", (), {"day": "2026-01-01", "hour": 7}),
        ("/env=prod/lake/day=x/a.csv", (), {"day": "x"}),
        ("/env=prod/lake/a.csv", ("/env=prod/lake",), {}),
        ("/env=prod/lake/day=x/deep/er/a.csv", ("/env=prod/lake",), {"day": "x"}),
        ("/env=prod/lake/day=x/deep/er/a.csv", (), {}),
        ("/lake/a=b.csv", ("/lake",), {}),
        ("/lake/=x/a.csv", ("/lake",), {}),
        ("/x=/lake/day=1/a.csv", ("/x=/lake",), {"day": 1}),
        ("/lake/x=1/x=2/a.csv", ("/lake",), {"x": 2}),
        ("/lake/x=a=b/a.csv", (), {"x": "a=b"}),
        ("/lake/x=A%2FB/a.csv", (), {"x": "A/B"}),
        ("/lake/x=__HIVE_DEFAULT_PARTITION__/a.csv", (), {"x": None}),
        ("/lake/x=-5/y=1.5/z=99999999999999999999/a.csv", (), {"x": -5, "y": "1.5", "z": "9" * 20}),
        ("s3://bucket/lake/day=1/a.csv", ("s3://bucket/lake",), {"day": 1}),
    ],
)
def test_values(path: str, roots: tuple[str, ...], found: dict[str, object]) -> None:
    assert read_partitions([path], roots) == [found]
    assert list(read_partitions([path], roots)[0]) == list(found)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/lake/x=/a.csv", "/lake/x="),
        ("/lake/x=1/a=/m=2/a.csv", "/lake/x=1/a="),
        ("/lake/m=\udcff/a.csv", "/lake/m=\udcff"),
        ("/lake/\udcff=1/m=2/a.csv", "/lake/\udcff=1"),
        ("/lake/m=%FF/a.csv", "/lake/m=%FF"),
    ],
)
@pytest.mark.parametrize("roots", [(), ("/lake",)])
def test_names_that_give_no_value_are_refused(path: str, place: str, roots: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        read_partitions(["/lake/m=1/a.csv", path], roots)
    assert (caught.value.code, caught.value.place) == ("SOW-EXC-012", place)
    assert caught.value.hint is not None


def test_a_column_has_one_type() -> None:
    files = ["/l/x=1/a", "/l/x=b/a", "/l/x=__HIVE_DEFAULT_PARTITION__/a"]
    assert read_partitions(files) == [{"x": "1"}, {"x": "b"}, {"x": None}]
    assert read_partitions(files[::2]) == [{"x": 1}, {"x": None}]
    assert read_partitions(files[:1], is_text=lambda name: name == "x") == [{"x": "1"}]


def test_it_does_not_matter_how_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake" / "day=1").mkdir(parents=True)
    (tmp_path / "lake" / "day=1" / "a.csv").touch()
    monkeypatch.chdir(tmp_path / "lake" / "day=1")
    for name in ("a.csv", "./a.csv", "../day=1/a.csv", f"{tmp_path}/lake/day=1/a.csv", "../../lake/day=1/./a.csv"):
        assert read_partitions([name]) == [{"day": 1}]
    for root in ("..", "../", ".", f"{tmp_path}/lake/"):
        (file,) = list_directory_files(root)
        assert read_partitions([file], [root]) == [{"day": 1}]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=6)


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(NAMES, NAMES, min_size=1, max_size=3))
def test_values_come_back(columns: dict[str, str]) -> None:
    path = "/lake/" + "".join(f"{quote(name, safe='')}={quote(value, safe='')}/" for name, value in columns.items())
    (found,) = read_partitions([path + "a"], ["/lake"], is_text=lambda _: True)
    assert found == columns


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.text("ab019/-", max_size=6), max_size=8, unique=True))
def test_the_order_is_total_and_does_not_depend_on_where_it_began(names: list[str]) -> None:
    wanted = sorted(names, key=build_order_key)
    other = names[::-1]
    other.sort(key=build_order_key)
    assert other == wanted
    assert len({str(build_order_key(name)) for name in names}) == len(names)


def test_numbers_in_names_are_numbers() -> None:
    names = ["h=9/part-2", "h=9/part-10", "h=10/part-1", "h=10a", "part"]
    other = names[::-1]
    other.sort(key=build_order_key)
    assert other == names


def test_files_of_a_directory(tmp_path: Path) -> None:
    for name in ("b/x=1/p", "a", "_SUCCESS", ".a.crc", "_delta_log/x", "_x=1/p", "b/.hidden/p"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    (tmp_path / "z").symlink_to(tmp_path / "b" / "x=1")
    found = [os.path.relpath(name, tmp_path) for name in list_directory_files(str(tmp_path))]
    assert found == ["_x=1/p", "a", "b/x=1/p", "z/p"]
