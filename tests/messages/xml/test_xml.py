"""Message type xml: input accepted and values read, by a slow reader and by lxml; and everything that is written."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from sowctl.errors import InputError, SowError, UsageError
from sowctl.messages.types import get_type
from sowctl.values.fields import FieldWrite, Number, Slot, SlotValue, ValueList
from sowctl.values.paths import parse_path
from sowctl.values.scalars import to_text
from tests.support import xmlslots

XML = get_type("xml")
NAMES = st.sampled_from(["a", "b", "c", "n:a"])
TEXT = st.one_of(
    st.sampled_from(["", " ", "5", " 5 ", "007", "1.50", "-0", "1e3", "x", "é", "a&b<c>", "1e999", "9" * 25]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=4),
)
FILLS = st.sampled_from(["", "", "", "<!-- n -->", "<?p i?>", "\n ", "<![CDATA[<5>]]>"])


@st.composite
def elements(draw: st.DrawFn, depth: int = 3) -> str:
    name = draw(NAMES)
    attributes = draw(st.dictionaries(st.sampled_from(["x", "y"]), TEXT, max_size=2))
    opening = name + "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    if draw(st.integers(0, 5)) == 0:
        return f"<{opening}/>"
    parts = []
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        parts += [draw(FILLS), draw(elements(depth - 1))]
    if not parts or draw(st.booleans()):
        parts.append(escape(draw(TEXT)))
    parts.append(draw(FILLS))
    return f"<{opening}>{''.join(parts)}</{name}>"


def rooted(text: str) -> str:
    return f"<r xmlns:n='u'>{text}</r>"


DOCUMENTS = st.lists(elements(), max_size=3).map(lambda parts: rooted("".join(parts)))
PATHS = ["/r", "/r/a", "/r/a/b", "/r/a/@x", "/r/b[1]", "/r/b[0]/a", "/r/n:a", "/r/a/b/@y", "/r/c[0]", "/r/@n", "/z"]
SLOTS = [
    Slot(parse_path(p), text=text, listed=listed) for p in PATHS for text in (False, True) for listed in (False, True)
]


def plain(value: SlotValue) -> Any:
    """The value with numbers as their texts, since plain integers may replace them."""
    if isinstance(value, ValueList):
        return (tuple(plain(item) for item in value.items), value.dropped)
    return (value.value, value.text) if isinstance(value, Number) else (value, to_text(value))


def one(payload: str | bytes, path: str, **how: bool) -> SlotValue:
    raw = payload.encode() if isinstance(payload, str) else payload
    rows, refusals = XML.build_extractor([Slot(parse_path(path), **how)])([raw])
    assert not refusals, refusals
    return rows[0][0]


@given(DOCUMENTS)
@example("<r><a>one<b>mid</b>two</a></r>")
def test_rows_are_those_of_the_slow_reader(document: str) -> None:
    rows, refusals = XML.build_extractor(SLOTS)([document.encode()])
    assert not refusals
    wanted = xmlslots.row(document, SLOTS)
    assert [plain(value) for value in rows[0]] == [plain(value) for value in wanted]
    keys, _ = XML.build_key_extractor([slot.path for slot in SLOTS])([document.encode()])
    for slot, value, key in zip(SLOTS, wanted, keys[0], strict=True):
        if slot.text:
            assert key == to_text(value)


@given(DOCUMENTS)
def test_texts_are_those_of_lxml(document: str) -> None:
    top = etree.fromstring(document)
    for name in ("a", "b", "c"):
        found = one(document, f"/r/{name}", listed=True, text=True)
        assert isinstance(found, ValueList)
        texts = ["".join(node.xpath("text()")) for node in top.findall(name)]
        objects = [len(node.findall("*")) + len(node.attrib) > 0 for node in top.findall(name)]
        expected = [
            text for text, is_object in zip(texts, objects, strict=True) if text.strip(" \t\r\n") or not is_object
        ]
        assert [to_text(item) for item in found.items] == [
            text.encode() if text.strip(" \t\r\n") else None for text in expected
        ]
        assert found.dropped == any(objects)


@given(DOCUMENTS, st.data())
def test_damage_is_refused_where_lxml_refuses(document: str, data: st.DataObject) -> None:
    payload = bytearray(document.encode())
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(payload) - 1))
        if data.draw(st.booleans()):
            del payload[at : at + data.draw(st.integers(1, 3))]
        else:
            payload[at] = data.draw(st.sampled_from(b"<>&/\"' =x!-]\xff\0"))
    damaged = bytes(payload)
    refusals = XML.check_payloads([damaged])
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        top = etree.fromstring(damaged, parser)
    except etree.XMLSyntaxError as problem:
        if problem.code in NAMESPACE_ERRORS or "amespace" in (problem.msg or "") or "xmlns" in (problem.msg or ""):
            return
        assert len(refusals) == 1, problem
        assert refusals[0].offset is not None and 0 <= refusals[0].offset <= len(damaged)
    else:
        if refusals and has_newer_names(top):
            return
        assert refusals == []
        assert XML.build_extractor(SLOTS)([damaged])[1] == []
    json.loads(XML.view(damaged))


def has_newer_names(top: Any) -> bool:
    """Whether a name has characters that the fifth edition of XML 1.0, which lxml implements, may have added to
    names."""
    names = [str(name) for node in top.iter() for name in (node.tag, *node.attrib, *node.nsmap)]
    names += [node.target for node in top.iter(etree.PI)]
    return not all(map(str.isascii, names))


NAMESPACE_ERRORS = {201, 202, 203, 204, 205}


@pytest.mark.parametrize(
    ("payload", "code", "words"),
    [
        (b"<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "SOW-MSG-002", "document type"),
        (b"<!DOCTYPE a SYSTEM 'http://127.0.0.1:1/x.dtd'><a/>", "SOW-MSG-002", "document type"),
        (b"<a>&x;</a>", "SOW-MSG-002", "undefined entity"),
        (b"", "SOW-MSG-002", "no element found"),
        (b"<a>\xff</a>", "SOW-MSG-002", "invalid token"),
        ("<a \u0370='1'/>".encode(), "SOW-MSG-002", "invalid token"),
        (b"<a></b>", "SOW-MSG-002", "mismatched tag (line 1, column 6)"),
        (b"<?xml version='1.0' encoding='no-such'?><a/>", "SOW-MSG-002", "encoding"),
        (b"<a>" * 65 + b"</a>" * 65, "SOW-MSG-003", "more than 64"),
    ],
)
def test_what_is_refused(payload: bytes, code: str, words: str) -> None:
    for refusals in (XML.check_payloads([payload]), XML.build_extractor([Slot(parse_path("/a/b"))])([payload])[1]):
        assert [(refusal.code, refusal.index) for refusal in refusals] == [(code, 0)]
        assert words in refusals[0].message
        assert refusals[0].offset is not None
    with pytest.raises(InputError) as caught:
        XML.merge_delta(b"<a/>", payload)
    assert (caught.value.code, caught.value.facts["part"]) == (code, "delta")


def test_a_refused_payload_costs_its_neighbours_nothing() -> None:
    rows, refusals = XML.build_extractor([Slot(parse_path("/a/b"))])(
        [b"<a><b>1</b></a>", b"<a><b>", b"<a><b>2</b></a>"]
    )
    assert rows == [(1,), (None,), (2,)]
    assert [refusal.index for refusal in refusals] == [1]


@pytest.mark.parametrize("name", ["a.b", "a-b", "é", "n:a", "_x.y-z"])
def test_names_are_names_whatever_they_hold(name: str) -> None:
    payload = f"<r><{name} k='v'>5</{name}><other.a>1</other.a></r>"
    assert one(payload, f"/r/{name}") == ValueList((5,), True)
    assert one(payload, f"/r/{name}/@k") == "v"
    assert one(payload.replace(" k='v'", ""), f"/r/{name}") == 5


def test_many_elements_inside_one_another_cost_no_tree() -> None:
    payload = b"<a>" * (1 << 18)
    tracemalloc.start()
    try:
        refusals = XML.build_extractor([Slot(parse_path("/a"))])([payload])[1]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [refusal.code for refusal in refusals] == ["SOW-MSG-003"]
    assert peak < 4 * len(payload)


def test_sixty_four_levels_are_read() -> None:
    payload = b"<a>" * 64 + b"5" + b"</a>" * 64
    assert XML.check_payloads([payload]) == []
    assert one(payload, "/a" * 64) == 5


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "windows-1252", "utf-8"])
def test_other_encodings_are_read_and_written_as_utf8(encoding: str) -> None:
    payload = f"<?xml version='1.0' encoding='{encoding}'?><a><b>é</b></a>".encode(encoding)
    assert one(payload, "/a/b") == "é"
    merged = XML.merge_delta(payload, b"<a><c>1</c></a>")
    assert one(merged, "/a/b") == "é"
    assert merged.endswith("<a><b>é</b><c>1</c></a>".encode())
    assert XML.view(payload) == '{"a":{"b":"é"}}'.encode()


@pytest.mark.parametrize(
    ("base", "delta", "merged"),
    [
        ("<o><id>1</id><q><bid>1</bid><ask>2</ask></q></o>", "<o><id>1</id><q><bid>3</bid></q></o>",
         "<o><id>1</id><q><bid>3</bid><ask>2</ask></q></o>"),
        ("<o><p>1</p><p>2</p></o>", "<o><p>3</p></o>", "<o><p>3</p></o>"),
        ("<o><p>1</p><z/><p>2</p></o>", "<o><p>3</p><p>4</p></o>", "<o><p>3</p><p>4</p><z/></o>"),
        ("<o><!-- kept --> <a k='1'>5</a></o>", "<o><a>6</a><n>7</n></o>",
         "<o><!-- kept --> <a k='1'>6</a><n>7</n></o>"),
        ("<o a='1' b='2'/>", "<o b='3'/>", '<o a="1" b="3"/>'),
        ("<o><a>5</a></o>", "<o><a/></o>", "<o><a>5</a></o>"),
        ("<o><a>5</a></o>", "<o><b><c/><d x=''/></b></o>", "<o><a>5</a></o>"),
        ("<o/>", "<o><b><c/><d>1</d></b></o>", "<o><b><d>1</d></b></o>"),
        ("<o><a>5</a></o>", "<o><a><b>1</b></a></o>", "<o><a><b>1</b></a></o>"),
        ("<o><a><b>1</b></a></o>", "<o><a>5</a></o>", "<o><a>5</a></o>"),
        ("<o>5</o>", "<p>6</p>", "<p>6</p>"),
        ("<?xml version='1.0'?><o>5</o><!-- end -->", "<o>6</o>", "<?xml version='1.0'?><o>6</o><!-- end -->"),
    ],
)  # fmt: skip
def test_deltas_merge_by_path(base: str, delta: str, merged: str) -> None:
    assert XML.merge_delta(base.encode(), delta.encode()) == merged.encode()


def test_nulls_of_a_delta_count_on_request() -> None:
    base = b"<o a='1'><b>5</b><c><d>1</d></c></o>"
    assert XML.merge_delta(base, b"<o a=''><b/><c/></o>", set_nulls=True) == b'<o a=""><b></b><c></c></o>'
    assert XML.merge_delta(base, b"<o><n/></o>", set_nulls=True) == base.replace(b"</o>", b"<n/></o>")


@given(DOCUMENTS)
def test_an_empty_delta_keeps_every_byte(document: str) -> None:
    payload = document.encode()
    assert XML.merge_delta(payload, b"<r/>") == payload
    assert XML.select_fields(payload, [(True, ())]) == payload
    assert XML.assign_fields(payload, []) == payload


@given(DOCUMENTS, DOCUMENTS)
def test_a_merged_field_is_that_of_the_delta_or_that_of_the_base(base: str, delta: str) -> None:
    merged = XML.merge_delta(base.encode(), delta.encode())
    assert etree.fromstring(merged) is not None
    assert XML.view(XML.merge_delta(merged, delta.encode())) == XML.view(merged)
    for name in ("/r/a/@x", "/r/b/@y"):
        old, new, now = (one(text, name, listed=True) for text in (base, delta, merged))
        assert isinstance(old, ValueList) and isinstance(new, ValueList) and isinstance(now, ValueList)
        if one(delta, name.rpartition("/")[0], listed=True) == ValueList(()):
            assert now == old


@pytest.mark.parametrize(
    ("select", "left"),
    [
        ([(False, ()), (True, ("o", "id"))], '<o><id>1</id></o>'),
        ([(False, ("o", "q", "bid"))], '<o k="1"><id>1</id><q><ask>2</ask></q><q x="5"/>t</o>'),
        ([(False, ("o", "q")), (True, ("o", "q", "@x"))], '<o k="1"><id>1</id><q x="5"/>t</o>'),
        ([(False, ()), (True, ("zz",))], "<o/>"),
        ([(False, ("o", "@k"))], '<o><id>1</id><q><bid>1</bid><ask>2</ask></q><q x="5"/>t</o>'),
    ],
)  # fmt: skip
def test_select_lists(select: list[tuple[bool, tuple[str, ...]]], left: str) -> None:
    payload = b'<o k="1"><id>1</id><q><bid>1</bid><ask>2</ask></q><q x="5"/>t</o>'
    assert XML.select_fields(payload, select).decode() == left


def write(path: str, value: SlotValue, remove: bool = False) -> FieldWrite:
    return FieldWrite(parse_path(path), value, remove)


def test_constructed_fields_are_written_in_place() -> None:
    payload = b"<o k='1'><!-- c --><id>1</id><q>5</q><p>1</p><p>2</p></o>"
    written = XML.assign_fields(
        payload,
        [
            write("/o/q", "a<b>&"),
            write("/o/p", Number(7, b" 07 ")),
            write("/o/n/m", True),
            write("/o/n/@x", 'q"\n'),
            write("/o/id", None),
            write("/o/@k", None, True),
        ],
    )
    wanted = '<o><!-- c --><id></id><q>a&lt;b&gt;&amp;</q><p> 07 </p><n x="q&quot;&#10;"><m>1</m></n></o>'
    assert written.decode() == wanted
    assert XML.assign_fields(payload, [write("/o/p", None, True), write("/o/zz/z", None, True)]) == payload.replace(
        b"<p>1</p><p>2</p>", b""
    )
    assert XML.build_message([(("o", "a", "b"), 1), (("o", "a", "@c"), "x"), (("o", "d"), None)]) == (
        b'<o><a c="x"><b>1</b></a><d/></o>'
    )


@pytest.mark.parametrize(
    ("path", "value", "kind", "code"),
    [
        ("/other/x", 1, UsageError, "SOW-MSG-008"),
        ("[/o/odd name]", 1, UsageError, "SOW-MSG-008"),
        ("/o/a", b"\xff", InputError, "SOW-MSG-009"),
        ("/o/a", "\0", InputError, "SOW-MSG-009"),
    ],
)
def test_what_xml_cannot_hold_is_an_error(path: str, value: SlotValue, kind: type[SowError], code: str) -> None:
    with pytest.raises(kind) as caught:
        XML.assign_fields(b"<o/>", [write(path, value)])
    assert caught.value.code == code


def test_a_message_has_one_root() -> None:
    with pytest.raises(UsageError) as caught:
        XML.build_message([(("a", "x"), 1), (("b", "x"), 1)])
    assert caught.value.code == "SOW-MSG-008"


def test_the_view_shows_attributes_texts_and_arrays() -> None:
    payload = b'<o k="007"><a>1</a><a x="y">t</a><b/>mixed</o>'
    assert json.loads(XML.view(payload)) == {
        "o": {"@k": "007", "a": [1, {"@x": "y", "#text": "t"}], "b": None, "#text": "mixed"}
    }
    assert XML.view(b"<o>5.50</o>") == b'{"o":"5.50"}'
    assert XML.view(b"<o") == b'"PG8="'
