"""Published numbers of the name hashes, laws of SOW keys, texts of bookmarks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import UsageError
from sowctl.identity.bookmarks import EPOCH, NOW, Bookmark, parse_bookmark
from sowctl.identity.hashes import crc32c, crc64, hash_client_name
from sowctl.identity.keys import (
    build_batch_digester,
    build_domain_prefix,
    compute_key_digest,
    compute_user_key_digest,
    encode_sow_key,
    is_user_key,
    parse_sow_key,
)


def test_published_check_values() -> None:  # C115, C116
    assert crc64(b"123456789") == 14602665702277640833
    assert crc32c(b"123456789") == 486108540
    assert (crc64(b""), crc32c(b"")) == (18446744073709551615, 4294967295)
    assert hash_client_name("pubber") == 7094790850998930143
    assert hash_client_name("bkmrk") == 13948331409633568391


def test_key_digests_never_change() -> None:
    assert compute_key_digest(build_domain_prefix("orders"), [b"1"]).hex() == "ec3fbae2898f0a75c639e1af4a70ed3a"
    assert compute_user_key_digest(b"AAA").hex() == "ca3edde10f842c7a75b5ab8f097400f3"


def test_keys_tell_domains_and_field_borders_apart() -> None:  # C04, C05, C06
    assert compute_key_digest(build_domain_prefix("T1"), [b"1"]) != compute_key_digest(
        build_domain_prefix("T2"), [b"1"]
    )
    assert compute_key_digest(build_domain_prefix("D"), [b"1"]) == compute_key_digest(build_domain_prefix("D"), [b"1"])
    assert compute_key_digest(build_domain_prefix("T"), [b"1", b"23"]) != compute_key_digest(
        build_domain_prefix("T"), [b"12", b"3"]
    )
    assert compute_key_digest(build_domain_prefix("T"), [None]) != compute_key_digest(build_domain_prefix("T"), [b""])


@given(st.text(), st.integers(1, 3), st.data())
def test_batches_agree_with_single_digests(domain: str, fields: int, data: st.DataObject) -> None:
    text = st.binary(max_size=40)
    rows = data.draw(st.lists(st.lists(text, min_size=fields, max_size=fields), max_size=5))
    expected = [compute_key_digest(build_domain_prefix(domain), row) for row in rows]
    assert (
        build_batch_digester(domain, fields)(rows) == build_batch_digester(domain, fields)(rows, null=True) == expected
    )


def test_a_batch_with_a_null_text_says_so() -> None:
    with pytest.raises(TypeError):
        build_batch_digester("D", 1)([[None]])
    some: list[list[bytes | None]] = [[b"a"], [None], [b"b" * 70]]
    assert build_batch_digester("D", 1)(some, null=True) == [
        compute_key_digest(build_domain_prefix("D"), row) for row in some
    ]


@given(st.integers(0, 2**64 - 1))
def test_keys_are_unsigned_decimals(number: int) -> None:  # C07
    assert int.from_bytes(encode_sow_key(number), "big") == number
    assert parse_sow_key(str(number)) == parse_sow_key("0" * 30 + str(number)) == encode_sow_key(number)


NUMBERS = [str(1 << 64), "0" + str(1 << 64), "9" * 20, "1" + "0" * 20, "9" * 5000]
TEXTS = ["", " 1", "1 ", "1\n", "+1", "-1", "1.0", "1e3", "0x1", "1_0", "x", "\u0661", "\uff11", "\u00b2", "0\u0661"]


@pytest.mark.parametrize("text", [*NUMBERS, *TEXTS])
def test_other_texts_name_no_sow_key(text: str) -> None:
    """Digits of other scripts neither, and a number that is too large for Python to read is refused like others."""
    assert parse_sow_key(text) is None
    assert parse_sow_key("0" * 5000) == bytes(8)


@pytest.mark.parametrize(
    ("text", "good"), [(b"AAA", True), (b"a+/9=", True), (b"a b!", False), (b"", False), (b"x\n", False)]
)
def test_user_keys_are_base64_text(text: bytes, good: bool) -> None:  # C10
    assert is_user_key(text) is good


def test_bookmarks_read_and_print() -> None:
    assert parse_bookmark("0") == EPOCH
    assert parse_bookmark("0|1|") == parse_bookmark("0|1") == NOW
    assert str(parse_bookmark("13948331409633568391|7|")) == "13948331409633568391|7|"
    assert parse_bookmark(" 5|6| ") == Bookmark(5, 6)
    for text in ("", "x", "1|", "|1|", "1|2|3", f"{2**64}|1|"):
        with pytest.raises(UsageError) as caught:
            parse_bookmark(text)
        assert caught.value.code == "SOW-IDN-001"


def test_what_is_no_bookmark_is_shown_in_part_where_it_is_long() -> None:
    with pytest.raises(UsageError) as caught:
        parse_bookmark("x" * 100_000)
    assert len(caught.value.message) < 120
    assert "..." in caught.value.message
