"""Declared fields with those that messages have besides."""

from __future__ import annotations

import pytest

from sowctl.arrow.evolution import merge_ddl
from sowctl.arrow.inference import Inference
from sowctl.errors import UsageError

MESSAGES = [b'{"id":1,"at":"now","who":{"name":"a","age":3},"lines":[{"n":1,"sku":"x"}],"more":1.5,"odd, name":true}']


def merged(declared: str) -> str:
    found = Inference()
    found.add(MESSAGES)
    return merge_ddl(declared, found.build_members())


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        (
            "id INT, who STRUCT<name: STRING>",
            "`id`: INT, `who`: STRUCT<`name`: STRING, `age`: BIGINT>, `at`: STRING, "
            "`lines`: ARRAY<STRUCT<`n`: BIGINT, `sku`: STRING>>, `more`: DOUBLE, `odd, name`: BOOLEAN",
        ),
        (
            "struct<at: timestamp, lines: array<struct<n: decimal(10,2)>> comment 'a, b', who string, "
            "`odd, name` STRING>",
            "`at`: timestamp, `lines`: ARRAY<STRUCT<`n`: decimal(10,2), `sku`: STRING>> comment 'a, b', `who`: string, "
            "`odd, name`: STRING, `id`: BIGINT, `more`: DOUBLE",
        ),
        (
            "later MAP<STRING, ARRAY<INT>>, id DECIMAL(38,9), at STRING, who STRING, lines STRING, more INT",
            "later MAP<STRING, ARRAY<INT>>, `id`: DECIMAL(38,9), `at`: STRING, `who`: STRING, `lines`: STRING, "
            "`more`: INT, `odd, name`: BOOLEAN",
        ),
    ],
)
def test_what_is_declared_stays_and_what_is_new_comes_behind(declared: str, wanted: str) -> None:
    assert merged(declared) == wanted


@pytest.mark.parametrize("declared", ["id", "id INT,", "id INT, who STRUCT<name: STRING", "who ARRAY<INT>>, id INT"])
def test_what_is_no_list_of_fields_is_refused(declared: str) -> None:
    with pytest.raises(UsageError) as caught:
        merged(declared)
    assert caught.value.code == "SOW-SPK-136"


def test_a_declared_name_that_messages_have_in_another_case_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        merged("ID BIGINT, at STRING")
    assert caught.value.code == "SOW-SPK-164" and "/ID and /id" in caught.value.message


def test_a_declared_array_takes_the_members_of_a_single_object() -> None:
    declared = "who ARRAY<STRUCT<name: STRING>>, " + ", ".join(f"{name} STRING" for name in ("id", "at", "lines"))
    assert merged(declared).startswith("`who`: ARRAY<STRUCT<`name`: STRING, `age`: BIGINT>>, `id`: STRING")
