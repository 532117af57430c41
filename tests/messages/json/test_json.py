"""Message type json: values at paths, keys, refusals and their positions, views and select lists."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import InputError
from sowctl.messages.json.exact_reader import JsonRefused, parse_json, parse_members
from sowctl.messages.json.type import JsonType
from sowctl.values.fields import Number, Slot, ValueList
from sowctl.values.paths import Path, Step, parse_path

KINDS = pytest.mark.parametrize("kind", [JsonType(), JsonType(fast=False)], ids=["fast", "exact"])


def one(kind: JsonType, payload: bytes, path: str, *, text: bool = False, listed: bool = False) -> object:
    rows, refusals = kind.build_extractor([Slot(parse_path(path), text, listed)])([payload])
    assert refusals == []
    return rows[0][0]


OUTER = b'{"outer":{"array":["a1","a2"],"compound":{"A":"mid","C":[{"C1":"first-C1","D1":"d1"},{"C1":"second-C1"},7]}}}'
PLAIN = [
    (b'{"a":1}', "/a", 1),
    (b' \r\n\t{ "a" : 1 } \n', "/a", 1),
    (b'{"a":1,"a":2}', "/a", 1),
    (b'{"a":{"x":1},"a":{"b":2}}', "/a/b", None),
    (b'{"a":null}', "/a", None),
    (b"{}", "/a", None),
    (b'{"a":""}', "/a", ""),
    (b'{"a":[]}', "/a", None),
    (b'{"a":[[],[[]]]}', "/a", None),
    (b'{"a":{}}', "/a", None),
    (b'{"a":{"x":1}}', "/a", ValueList((), True)),
    (b'{"a":[{"x":1},5]}', "/a", ValueList((5,), True)),
    (b'{"a":[{},5]}', "/a", 5),
    (b'{"a":[null,1]}', "/a", ValueList((None, 1))),
    (b'{"a":[[1,2],[3,[4]]]}', "/a", ValueList((1, 2, 3, 4))),
    (b'{"a":[[1,2],[3,[4]]]}', "/a[2]", 3),
    (b'{"a":5}', "/a[0]", 5),
    (b'{"a":5}', "/a[1]", None),
    (b'{"a":[1]}', "/a[99999999999999999999]", None),
    (b'{"m":[{"a":1},5,null,{"a":7}]}', "/m[3]/a", 7),
    (b'{"m":[{"a":1},5,null,{"a":7}]}', "/m/a[1]", 7),
    (b'{"m":[{"a":1},5]}', "/m[0]", ValueList((), True)),
    (b'{"m":{"a":1}}', "/m[0]/a", 1),
    (b'{"m":{"a":1}}', "/m[1]/a", None),
    (b'{"a":[{"b":[{"c":1},{"c":[2,3]}]},{"b":{"c":4}}]}', "/a/b/c", ValueList((1, 2, 3, 4))),
    (OUTER, "/outer/compound/C/C1[0]", "first-C1"),
    (OUTER, "/outer/compound/C[1]/C1", "second-C1"),
    (OUTER, "/outer/compound/C/D1[1]", None),
    (OUTER, "/outer/array", ValueList(("a1", "a2"))),
    (b'{"a":5}', "/a/b", None),
    (b'[{"a":5}]', "/a", None),
    (b"5", "/a", None),
    (b'"a"', "/a", None),
    (b'{"sp ace":{"in ner":3}}', "[/sp ace/in ner]", 3),
    (b'{"":1," ":2}', "[/ ]", 2),
    (b'{"a:b":1,"@id":2}', "/a:b", 1),
    (b'{"a:b":1,"@id":2}', "/@id", 2),
    (b'{"\\u0061":1,"a":2}', "/a", 1),
    (b'{"q\\"":1}', '[/q"]', 1),
    (b'{"s":"\\u00e9\\/\\"\\n"}', "/s", 'é/"\n'),
    (b'{"s":"\\ud83d\\ude00"}', "/s", "😀"),
    (b'{"s":"x\\ud800y"}', "/s", "x\ufffdy"),
    (b'{"s":"\\ud800\\ud800\\udc00"}', "/s", "\ufffd\U00010000"),
    (b'{"s":"\\udc00\\ud800"}', "/s", "\ufffd\ufffd"),
    (b'{"\\ud800":1}', "/\ufffd", 1),
    (b'{"s":"a\\u0000b"}', "/s", "a\0b"),
    (b'{"n":-0}', "/n", 0),
    (b'{"n":1.50}', "/n", 1.5),
    (b'{"n":1e3}', "/n", 1000.0),
    (b'{"n":18446744073709551615}', "/n", 2**64 - 1),
    (b'{"n":18446744073709551616}', "/n", 2.0**64),
    (b'{"n":-9223372036854775808}', "/n", -(2**63)),
    (b'{"n":-9223372036854775809}', "/n", -(2.0**63)),
    (b'{"n":1e999}', "/n", math.inf),
    (b'{"n":-1e999}', "/n", -math.inf),
    (b'{"n":' + b"9" * 5000 + b"}", "/n", math.inf),
    (b'{"t":true,"f":false}', "/t", True),
    (b'{"t":true,"f":false}', "/f", False),
]


@KINDS
@pytest.mark.parametrize(("payload", "path", "value"), PLAIN)
def test_what_a_path_finds(kind: JsonType, payload: bytes, path: str, value: object) -> None:
    found = one(kind, payload, path)
    assert repr(found) == repr(value)
    items = value if isinstance(value, ValueList) else None
    listed = one(kind, payload, path, listed=True)
    assert isinstance(listed, ValueList)
    if items is not None:
        assert listed == items
    elif value is not None:
        assert listed == ValueList((value,))


TEXTS = [
    (b'{"n":1.50}', Number(1.5, b"1.50")),
    (b'{"n":-0}', Number(0, b"-0")),
    (b'{"n":[-0,0,7]}', ValueList((Number(0, b"-0"), 0, 7))),
    (b'{"n":12}', 12),
    (b'{"n":1E+2}', Number(100.0, b"1E+2")),
    (b'{"n":1e999}', Number(math.inf, b"1e999")),
    (b'{"n":18446744073709551616}', Number(2.0**64, b"18446744073709551616")),
    (b'{"n":"1.50"}', "1.50"),
    (b'{"n":[1.0,"x",true]}', ValueList((Number(1.0, b"1.0"), "x", True))),
]


@KINDS
@pytest.mark.parametrize(("payload", "value"), TEXTS)
def test_numbers_keep_their_text_where_it_is_asked_for(kind: JsonType, payload: bytes, value: object) -> None:
    assert repr(one(kind, payload, "/n", text=True)) == repr(value)
    neighbour = kind.build_extractor([Slot(parse_path("/n"), True), Slot(parse_path("/n"))])([payload])[0][0]
    assert repr(neighbour[1]) == repr(one(kind, payload, "/n"))


KEYS = [
    (b'{"k":"x"}', b"x"),
    (b'{"k":"\\u00e9"}', "é".encode()),
    (b'{"k":1}', b"1"),
    (b'{"k":-0}', b"-0"),
    (b'{"k":1.0}', b"1.0"),
    (b'{"k":100000000000000000000000}', b"100000000000000000000000"),
    (b'{"k":1e999}', b"1e999"),
    (b'{"k":true}', b"1"),
    (b'{"k":false}', b"0"),
    (b'{"k":null}', None),
    (b'{"k":""}', None),
    (b"{}", None),
    (b'{"k":{}}', None),
    (b'{"k":{"x":1}}', None),
    (b'{"k":[]}', None),
    (b'{"k":[{"x":1},[],["y"],"z"]}', b"y"),
    (b'{"k":[null,"z"]}', None),
    (b'{"k":["","z"]}', None),
    (b"[1]", None),
    (b'{"k":"a","k":"b"}', b"a"),
]


@KINDS
@pytest.mark.parametrize(("payload", "text"), KEYS)
def test_key_texts(kind: JsonType, payload: bytes, text: bytes | None) -> None:
    read = kind.build_key_extractor([parse_path("/k")])
    assert read([payload]) == ([(text,)], [])
    assert read([b'{"k":"s"}', payload, b'{"k":7}']) == ([(b"s",), (text,), (b"7",)], [])


@KINDS
def test_batches_keep_their_order_and_name_their_refusals(kind: JsonType) -> None:
    payloads = [b'{"a":1,"b":"x"}', b'{"a":}', b'{"b":[1]}', b"", b'{"a":"\xff"}', b'{"a":2}']
    rows, refusals = kind.build_extractor([Slot(parse_path("/a")), Slot(parse_path("/b"), listed=True)])(payloads)
    none = (None, None)
    assert rows == [(1, ValueList(("x",))), none, (None, ValueList((1,))), none, none, (2, ValueList(()))]
    assert [(r.index, r.code, r.offset) for r in refusals] == [
        (1, "SOW-MSG-002", 5),
        (3, "SOW-MSG-002", 0),
        (4, "SOW-MSG-001", 6),
    ]
    assert kind.check_payloads(payloads) == refusals
    assert kind.build_key_extractor([parse_path("/a")])(payloads)[1] == refusals


@KINDS
def test_no_payloads_and_no_slots(kind: JsonType) -> None:
    assert kind.build_extractor([Slot(parse_path("/a"))])([]) == ([], [])
    assert kind.build_extractor([])([b"{}", b"[]", b"1"]) == ([(), (), ()], [])
    assert kind.build_extractor([])([b"{", b"1"])[1][0].index == 0
    assert kind.build_key_extractor([])([b"{}"]) == ([()], [])
    assert kind.check_payloads([]) == []


REFUSED = [
    (b"", 0, "the end"),
    (b"  ", 2, "the end"),
    (b"{", 1, "member name"),
    (b'{"a"', 4, "colon"),
    (b'{"a":', 5, "a value "),
    (b'{"a":1', 6, "a comma or }"),
    (b'{"a":1,}', 7, "member name"),
    (b"{'a':1}", 1, "member name"),
    (b"{a:1}", 1, "member name"),
    (b"[1,]", 3, "a value "),
    (b"[1 2]", 3, "a comma or ]"),
    (b"[1}", 2, "a comma or ]"),
    (b'{"a":1]', 6, "a comma or }"),
    (b'{"a":1}}', 7, "after the end"),
    (b"{} {}", 3, "after the end"),
    (b"\xef\xbb\xbf{}", 0, "U+FEFF"),
    (b'{"a":01}', 5, "number is malformed"),
    (b'{"a":1.}', 5, "number is malformed"),
    (b'{"a":.5}', 5, "a value "),
    (b'{"a":+1}', 5, "a value "),
    (b'{"a":-}', 5, "a value "),
    (b'{"a":0x10}', 5, "number is malformed"),
    (b'{"a":1e}', 5, "number is malformed"),
    (b'{"a":NaN}', 5, "'NaN'"),
    (b'{"a":Infinity}', 5, "'Infinity'"),
    (b'{"a":-Infinity}', 5, "a value "),
    (b'{"a":True}', 5, "'True'"),
    (b'{"a":nul}', 5, "'nul'"),
    (b'{"a":"x', 5, "no closing quote"),
    (b'{"a":"x\\', 7, "escape"),
    (b'{"a":"\\x41"}', 6, "escape"),
    (b'{"a":"\\u12g4"}', 6, "escape"),
    (b'{"a":"\t"}', 6, "control character 0x09"),
    (b'{"a":"\n"}', 6, "control character 0x0a"),
    (b'{"a":1}\0', 7, "U+0000"),
    (b'{"a":"\xc3"}', 6, "UTF-8"),
    (b'{"a":"\xc0\x80"}', 6, "UTF-8"),
    (b'{"b":"\xed\xa0\x80"}', 6, "UTF-8"),
    (b"// x\n{}", 0, "a value "),
]


@KINDS
@pytest.mark.parametrize(("payload", "offset", "words"), REFUSED)
def test_refusals_say_where_and_why(kind: JsonType, payload: bytes, offset: int, words: str) -> None:
    (refusal,) = kind.check_payloads([payload])
    assert (refusal.index, refusal.offset) == (0, offset)
    assert words in refusal.message


def test_lines_and_columns_count_characters() -> None:
    with pytest.raises(JsonRefused, match=r"line 3, column 7\)") as caught:
        parse_json('{"a":1,\n"b":2,\n "é😀":x}'.encode())
    assert caught.value.offset == len('{"a":1,\n"b":2,\n "é😀":'.encode())


def test_members_given_twice_are_named_for_the_outermost_object_only() -> None:
    root, repeated = parse_members(b'{"a":{"x":1,"x":2},"b":1,"a":3,"a":4}')
    assert repeated == ["a", "a"]
    assert sorted(root.value) == ["a", "b"]


@KINDS
def test_many_paths_share_their_steps(kind: JsonType) -> None:
    paths = ["/a", "/a/b", "/a/b/c", "/b", "/a/c", "/x/y/z"]
    payloads = [
        b'{"a":{"b":{"c":1},"c":2},"b":3,"x":{"y":{"z":4}}}',
        b'{"a":1,"b":[{"c":9}],"x":[{"y":{"z":[5]}},{"y":6}]}',
        b'{"a":[{"b":1},{"b":{"c":2,"c":3}}]}',
    ]
    rows, refusals = kind.build_extractor([Slot(parse_path(path)) for path in paths])(payloads)
    gone = ValueList((), True)
    assert refusals == []
    assert rows == [
        (gone, gone, 1, 3, 2, 4),
        (1, None, None, gone, None, 5),
        (gone, ValueList((1,), True), 2, None, None, None),
    ]


SELECTIONS = [
    ([(False, ("p",))], b'{"id":42,"p":{"l":1}}', b'{"id":42}'),
    ([(True, ("p", "l")), (False, ("p",))], b'{"id":42,"p":{"l":1,"r":2}}', b'{"id":42,"p":{"l":1}}'),
    ([(False, ("p",)), (True, ("p", "l"))], b'{"id":42,"p":{"l":1,"r":2}}', b'{"id":42,"p":{"l":1}}'),
    ([(False, ("id",)), (True, ("id",))], b'{"id":42,"x":1}', b'{"x":1}'),
    ([(True, ("id",)), (False, ("id",))], b'{"id":42,"x":1}', b'{"id":42,"x":1}'),
    ([(False, ()), (True, ("i", "a"))], b'{"i":[{"a":1,"b":9},{"b":8},{"a":2},5],"x":1}', b'{"i":[{"a":1},{"a":2}]}'),
    ([(False, ()), (True, ("a", "b"))], b'{"a":{"c":1},"d":[{"e":1}]}', b"{}"),
    ([(False, ("a", "b"))], b'{"a":{"b":1},"c":{},"d":[]}', b'{"c":{},"d":[]}'),
    ([(False, ("a",)), (True, ("a", "x"))], b'{"a":{}}', b"{}"),
    ([(False, ("a",))], b' { "b" : [ 1.50 , "\\u0041" ] , "a" : 1 } ', b'{"b":[ 1.50 , "\\u0041" ]}'),
    ([(False, ("zz",))], b'{"a":1}', b'{"a":1}'),
    ([(True, ("a",))], b' {"a":1, "a":2}', b' {"a":1, "a":2}'),
    ([(False, ("x", "y"))], b'{"x":1,"x":{"y":2}}', b'{"x":1}'),
    ([(False, ("a",))], b'[{"a":1}]', b'[{"a":1}]'),
    ([(False, ("a",))], b"7", b"7"),
    ([(False, ("a",))], b'{"\\u0061":1,"b\\n\xc3\xa9":2}', b'{"b\\n\xc3\xa9":2}'),
    ([], b'{"a":1}', b'{"a":1}'),
]


@pytest.mark.parametrize(("directives", "payload", "result"), SELECTIONS)
def test_select(directives: list[tuple[bool, tuple[str, ...]]], payload: bytes, result: bytes) -> None:
    assert JsonType().select_fields(payload, directives) == result


def test_select_refuses_what_is_no_json() -> None:
    with pytest.raises(InputError) as caught:
        JsonType().select_fields(b'{"a":}', [])
    assert (caught.value.code, caught.value.facts["offset"]) == ("SOW-MSG-002", 5)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_a_view_is_one_line_and_means_the_same(value: object) -> None:
    import json

    pretty = json.dumps(value, indent=2).replace("\n", "\r\n").encode()
    view = JsonType().view(pretty)
    assert not {10, 13} & set(view)
    assert json.loads(view) == value
    compact = json.dumps(value).encode()
    assert JsonType().view(compact) is compact


def test_a_view_keeps_the_bytes_between_the_breaks() -> None:
    assert JsonType().view(b'{"a" :\n 1.50,\r\n"b":"\\n"}') == b'{"a" : 1.50,"b":"\\n"}'


def test_names_that_cannot_be_counted_are_read_all_the_same() -> None:
    payload = b'{":":1,"x":":",",":2,"a/b":3,"\\u007f":4,"":5,"c\\\\d":6}'
    names = [":", ",", "a/b", "\x7f", "", "c\\d"]
    slots = [Slot(Path((Step(name),))) for name in names]
    assert JsonType().build_extractor(slots)([payload])[0] == [(1, 2, 3, 4, 5, 6)]
