"""Messages of one shape read together: always what the decoder makes of them one by one.

The long form (``--deep``) tries some hundred thousand messages in a process of its own, which must come to its end.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sowctl.arrow.jsoncolumns import Misfit
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.messages.json.digits import parse_doubles, parse_whole_numbers
from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.messages.json.template_match import MessageLines, TemplateMatcher

TYPE = pa.struct(
    [
        ("a", pa.int64()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("o", pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.float32())])),
        ("n", pa.string()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("p", pa.decimal128(12, 2)),
        ("y", pa.int8()),
        ("l", pa.list_(pa.int64())),
    ]
)
TOKENS = (
    b"0 -0 1 -1 7 42 -128 127 128 1.0 -0.0 0.5 .5 5. 1e5 1E-3 1.e5 1e400 01 -01 00 +1 0x10 -0x2540BE400 0x2540BE400 "
    b"NaN "
    b"Infinity -Infinity inf 2147483648 -2147483649 99999999 100000000 12345678.1234567 123456789.5 1234567.12345678 "
    b"9007199254740993 999999999999999 1000000000000000 9223372036854775807 9223372036854775808 -9223372036854775808 "
    b"18446744073709551616 123456789012345678901234567890 4.9e-324 1.7976931348623159e308 0.1 39.4823 - -. 1_0 "
    b"1.2.3 1-2 "
    b'true false null True nul [] {} [1,2] [1,null] {"x":1} {"x":1,"y":"q"} {"y":2} "" "a" "1" "null" 1/2 '
    b'["a","b"] [true,1.5] [-0,-0.0] [1e400] [01] [1,] [,1] [,] [1 ] [9223372036854775808] ["1",2] ["a\\"b"] ["\xff"] '
    b'[[1]] [1,[2]] [{"x":1}] ["a] ["]"] [1]] [nul] '
    b'"2026-01-02T03:04:05Z" "noon" "\xc3\xbc" "\xe2\x82\xac\xf0\x9f\x98\x80" "\xff" "\xed\xa0\x80" '
    b'"a\\nb" "\\u00e9" "\\ud800" "\\\\" "\\"" "tab\there" "\x7f" \'a\' /*c*/1 // "{" "}," ":" "\x00"'
).split(b" ")
NAMES = [b"a", b"d", b"s", b"b", b"o", b"n", b"t", b"p", b"y", b"l", b"u", b"v", b"", b"\xc3\xbc", b"\\u0061", b"a.b"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of any size are tried by their shapes."""
    monkeypatch.setattr(JSON_LIMITS, "min_array_messages", 1)


def together(
    kind: pa.StructType, messages: list[bytes], present: Any = None, decoder: StructDecoder | None = None
) -> pa.Array:
    """What the decoder makes of a batch; every batch is tried by its shapes."""
    decoder = decoder or StructDecoder(kind)
    lengths = np.array([len(message) for message in messages])
    return decoder.decode_packed(
        [b"".join(messages)], lengths, np.ones(len(messages), bool) if present is None else present
    )


def same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays hold the same values; a negative zero is another than zero."""
    one.validate(full=True)
    return one.type == other.type and repr(one.to_pylist()) == repr(other.to_pylist())


def check(kind: pa.StructType, messages: list[bytes]) -> None:
    """Together as one by one."""
    decoder = StructDecoder(kind)
    expected = StructDecoder(kind).decode_objects(messages)
    alike(together(kind, messages, decoder=decoder), expected, messages)


def alike(found: pa.Array, expected: pa.Array, messages: list[bytes]) -> None:
    """The same values, or which message has others."""
    if not same(found, expected):
        for message, ours, theirs in zip(messages, found.to_pylist(), expected.to_pylist(), strict=True):
            assert repr(ours) == repr(theirs), message
        raise AssertionError(messages)


def test_messages_of_one_shape_are_read_without_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [
        b'{"a":%d,"d":%s,"u":%d,"s":"%s","o":{"x":%d,"y":"q","q":null},"b":true,"t":"2026-01-02T03:04:%02dZ"}'
        % (at * 7919**3, str(at / 8 - 4).encode(), at, b"text" * (at % 40), at - 50, at % 60)
        for at in range(100)
        if at != 32
    ]
    expected = StructDecoder(TYPE).decode_objects(messages)
    decoder = StructDecoder(TYPE)
    tried: list[int] = []
    one_by_one = decoder.decode_objects

    def counted(views: Any) -> pa.Array:
        tried.append(len(views))
        return one_by_one(views)

    monkeypatch.setattr(decoder._shaped, "_views", counted)
    monkeypatch.setattr(decoder, "decode_objects", counted)
    lengths = np.array(list(map(len, messages)))
    for _ in range(3):
        assert same(decoder.decode_packed(messages, lengths, np.ones(len(messages), bool)), expected)
    assert tried == [1]  # the message that showed the shape


@pytest.mark.parametrize("strict", [False, True])
def test_arrays_of_any_length_are_of_one_shape(monkeypatch: pytest.MonkeyPatch, strict: bool) -> None:
    """The decoder sees them alone, without the rest of the message; what is not declared it does not see."""
    kind = pa.struct([("a", pa.int64()), ("l", pa.list_(pa.string())), ("o", pa.struct([("n", pa.list_(pa.int8()))]))])
    messages = [
        json.dumps({"a": at, "l": ["x" * (at % 7)] * (at % 5), "o": {"n": [*range(at % 3)]}}).encode()
        for at in range(100)
    ]
    if not strict:
        more = [b"[]", b"[1, null]", b'["]", true , -1.5]']
        messages = [b'%b, "more": %b}' % (message[:-1], more[at % 3]) for at, message in enumerate(messages)]
    expected = StructDecoder(kind, strict=strict).decode_objects(messages)
    decoder = StructDecoder(kind, strict=strict)
    whole: list[int] = []
    monkeypatch.setattr(decoder, "decode_objects", lambda views: whole.append(len(views)))
    lengths = np.array(list(map(len, messages)))
    for _ in range(2):
        assert same(decoder.decode_packed(messages, lengths, np.ones(len(messages), bool)), expected)
    assert whole == []


def test_an_element_that_does_not_fit_is_told_by_its_message() -> None:
    kind = pa.struct([("l", pa.list_(pa.int64()))])
    messages = [b'{"l":[%d,2]}' % at for at in range(100)]
    messages[70] = b'{"l":[1,"x"]}'
    expected = StructDecoder(kind).decode_objects(messages)
    assert same(together(kind, messages), expected) and expected[70].as_py() == {"l": [1, None]}
    with pytest.raises(Misfit) as raised:
        together(kind, messages, decoder=StructDecoder(kind, strict=True))
    assert raised.value.row == 70


def test_what_is_not_present_is_null() -> None:
    messages = [b'{"a":1}', b"", b'{"a":2}', b"", b"oops"]
    present = np.array([True, False, True, False, True])
    found = together(TYPE, messages, present)
    assert [None if one is None else one["a"] for one in found.to_pylist()] == [1, None, 2, None, None]
    assert together(TYPE, [b"", b""], np.zeros(2, bool)).to_pylist() == [None, None]
    assert together(TYPE, [b"", b""]).to_pylist() == [None, None]


@pytest.mark.parametrize("token", TOKENS)
def test_every_odd_value_among_plain_ones(token: bytes, deep: bool) -> None:
    plain = [
        b'{"a":1,"y":0,"d":2.5,"s":"x","u":0,"l":[]}',
        b'{"a":-15,"y":9,"d":-0.25,"s":"","u":123,"l":[1, 2 ,null]}',
    ] * 3
    names = (b"a", b"d", b"s", b"u", b"o", b"y", b"l")
    for name in names if deep else (names[len(token) % 7],):
        for odd in (
            b'{"a":1,"d":2.5,"s":"x","u":0,"%s":%s}' % (name, token),
            b'{"%s":%s}' % (name, token),
            b'{"%s" : %s , "a": 3}' % (name, token),
            re.sub(rb'("%s":)[^,}]+' % name, lambda found: found[1] + token, plain[0]),
            plain[0].replace(b'"%s":' % name, b'"%s":%s,"q":' % (name, token)),
        ):
            check(TYPE, [*plain, odd, plain[1]])
            check(TYPE, [odd, odd, *plain[:1]])


@pytest.mark.parametrize(
    "message",
    [
        b"null",
        b"",
        b" ",
        b"[]",
        b"5",
        b'"a"',
        b"{}",
        b"{ }",
        b' {"a":1}',
        b'{"a":1} ',
        b'{"a":1}\n',
        b'{"a":1}{"a":2}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1,"a":2}',
        b'{"o":{"x":1},"o":{"y":"2"}}',
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"u":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"u":' * 700 + b"1" + b"}" * 700,
        b'{"u":' + b"[" * 900 + b'"1"' + b"]" * 900 + b"}",
        b'{"l":["a",1,null]}',
        b'{"o":null,"s":null}',
    ],
    ids=lambda message: message[:24],
)
def test_every_odd_message_among_plain_ones(message: bytes) -> None:
    plain = [b'{"a":%d}' % at for at in range(5)]
    text = [b'{"s":"%d"}' % at for at in range(5)]
    check(TYPE, [*text, b'{"s":"a\\"}', b'{"s":"\\"}"}', message, b'{"s":"a\tb"}', b'{"s":"a\\\\"}'])
    check(TYPE, [*text, b'{"s":"a\tb"}', *text])
    check(TYPE, [*plain, message, *plain])
    check(TYPE, [message] * 4)
    check(TYPE, [message, *plain])


def test_messages_cannot_lend_each_other_bytes() -> None:
    whole = b'{"a":1,"s":"x"}'
    for cut in range(len(whole) + 1):
        check(TYPE, [whole, whole[:cut], whole[cut:], whole])


def test_spaces_in_front_of_the_first_name_lend_no_bytes() -> None:
    kind = pa.struct([("a", pa.string())])
    for spaces in (b" " * count for count in range(9)):
        plain = [b'{%b"a":"x"}' % spaces] * 5
        # Three messages of which none can be read, and three objects all the same.
        odd = [b'{%b"a":"x}' % spaces, b'{%b"}' % spaces, b'{%b"a":"y"}{%b"a":"z"}' % (spaces, spaces)]
        decoder = StructDecoder(kind)
        assert together(kind, plain, decoder=decoder).null_count == 0
        assert together(kind, plain + odd, decoder=decoder).to_pylist() == [{"a": "x"}] * 5 + [None] * 3


def test_patterns_read_single_columns_and_none_and_texts_that_look_like_marks() -> None:
    for kind in (pa.struct([("s", pa.string())]), pa.struct([("b", pa.bool_())]), pa.struct([("q", pa.int64())])):
        check(kind, [b'{"s":"","b":true}', b'{"s":"null","b":null}', b'{"s":"\xef\xbb\xbfx","b":false}'] * 2)
        check(kind, [b'{"s":"\xef\xbb\xbfx","b":false}', b'{"s":"","b":true}'])
        check(kind, [b'{"s":"a\x7f,;\t","b":true}', b'{"s":"","b":true}'])


@pytest.mark.parametrize("whole", [True, False])
def test_numbers_are_what_python_makes_of_them(whole: bool) -> None:
    rng = random.Random(3)
    texts = ["-" * rng.randrange(2) + str(rng.randrange(10 ** rng.randrange(1, 22))) for _ in range(3000)]
    if not whole:
        texts += [f"{text}.{str(rng.random())[2 : 3 + rng.randrange(16)]}" for text in texts]
        texts += [f"{text[:3]}.{rng.randrange(10**15):015d}"[: rng.randrange(5, 20)] for text in texts[:3000]]
    raw = bytes(24) + " ".join(texts).encode() + bytes(24)
    sizes = np.array(list(map(len, texts)))
    begins = 24 + (sizes + 1).cumsum() - sizes - 1
    words = np.ndarray((len(raw) - 7,), "<u8", raw, 0, (1,))
    read = parse_whole_numbers if whole else parse_doubles
    found, fits = read(np.frombuffer(raw, "u1"), words, begins, begins + sizes)
    for text, value, good in zip(texts, found.tolist(), fits.tolist(), strict=True):
        digits = text.lstrip("-")
        point = digits.startswith((".", "-")) or digits.endswith(".") or "-" in digits
        padded = len(digits.partition(".")[0]) > 1 and digits[0] == "0"
        negative_zero = text[0] == "-" and float(text) == 0 if not point else False
        short = len(digits.replace(".", "")) <= (18 if whole else 15)
        assert good == (short and not point and not padded and not negative_zero), text
        assert not good or value == (int(text) if whole else float(text)), text
    assert fits.sum() > 1000


@pytest.mark.parametrize("fit", [True, False])
def test_an_inferred_type_is_as_strict_with_shapes(fit: bool) -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.bool_()), ("s", pa.string())])
    messages = [b'{"a":%d,"b":%s,"s":"x"}' % (at, b"true" if at % 2 else b"null") for at in range(100)]
    if not fit:
        messages[70] = b'{"a":70,"b":true,"s":"x","more":1}'
    lengths = np.array(list(map(len, messages)))
    present = np.ones(len(messages), bool)
    present[5], lengths[5], messages[5] = False, 0, b""
    decoder = StructDecoder(kind, strict=True)
    if fit:
        found = decoder.decode_packed(messages, lengths, present)
        expected = StructDecoder(kind).decode_objects([one if one else None for one in messages])
        assert same(found, expected)
        return
    for _ in range(2):
        with pytest.raises(Misfit) as raised:
            decoder.decode_packed(messages, lengths, present)
        assert (raised.value.row, raised.value.names) == (70, ["more"])


def plain_value(rng: random.Random, name: bytes, depth: int) -> bytes:
    """What shapes are made of, now and then of another type than declared."""
    if rng.random() < 0.03:
        return value_of(rng, 1)
    if rng.random() < 0.1:
        return rng.choice([b"true", b"false", b"null", b"7"])
    if name == b"a":
        return str(rng.randrange(-(10 ** rng.randrange(1, 10)), 10 ** rng.randrange(1, 14))).encode()
    if name in (b"x", b"y", b"p"):
        return str(rng.randrange(-(10 ** rng.randrange(1, 3)), 100)).encode()
    if name in (b"d", b"z", b"v"):
        return f"{rng.uniform(-1e4, 1e4):.{rng.randrange(1, 8)}f}".encode()
    if name in (b"o", b"u"):
        return plain_object(rng, depth - 1) if depth else b"null"
    if name == b"l":
        values = [plain_value(rng, rng.choice([b"a", b"x", b"s"]), 0) for _ in range(rng.randrange(4))]
        return b"[" + rng.choice([b",", b", "]).join(values) + b"]"
    if name == b"b":
        return rng.choice([b"true", b"false", b"null"])
    return json.dumps("".join(rng.choices("ab:{},ü€ 10", k=rng.randrange(20))), ensure_ascii=False).encode()


def plain_object(rng: random.Random, depth: int) -> bytes:
    """Members of some names, mostly of the declared types."""
    colon, comma = rng.choice([(b":", b","), (b": ", b", ")])
    names = rng.sample([*NAMES[:10], b"u", b"v", b"", b"\xc3\xbc", b"x", b"z"], rng.randrange(1, 9))
    return b"{" + comma.join(b'"' + name + b'"' + colon + plain_value(rng, name, depth) for name in names) + b"}"


def value_of(rng: random.Random, depth: int) -> bytes:
    """JSON or nearly."""
    kind = rng.randrange(10)
    if kind < 2:
        return rng.choice(TOKENS)
    if kind < 4:
        return str(rng.choice([rng.randrange(-9, 10), rng.randrange(10**9), rng.randrange(-(2**70), 2**70)])).encode()
    if kind < 6:
        return str(rng.choice([round(rng.uniform(-1e4, 1e4), rng.randrange(9)), rng.uniform(-1, 1) ** 99])).encode()
    if kind == 6 and depth:
        return object_of(rng, depth - 1)
    if kind == 7 and depth:
        return b"[" + b",".join(value_of(rng, depth - 1) for _ in range(rng.randrange(3))) + b"]"
    return json.dumps("".join(rng.choices('ab:{},"\\ü€\n 1', k=rng.randrange(20))), ensure_ascii=False).encode()


def object_of(rng: random.Random, depth: int) -> bytes:
    """Members of some names."""
    colon, comma = rng.choice([(b":", b","), (b": ", b", ")])
    names = rng.sample(NAMES, rng.randrange(6)) if rng.random() < 0.9 else rng.choices(NAMES, k=3)
    return b"{" + comma.join(b'"' + name + b'"' + colon + value_of(rng, depth) for name in names) + b"}"


def like(rng: random.Random, message: bytes) -> bytes:
    """Another message of nearly the same shape."""
    made = bytearray(message)
    wild = rng.random() < 0.05
    for place in range(len(message) - 1, -1, -1):
        char = message[place]
        if char in b"0123456789" and rng.random() < 0.7:
            made[place] = rng.choice(b"0123456789" if wild else b"123456789")
        elif char in b"a " and rng.random() < 0.02:
            made[place : place + 1] = rng.choice([b"b", b"zzz", b"\xc3\xa9", b"", b"  "])
    return bytes(made)


def mutated(rng: random.Random, message: bytes, other: bytes) -> bytes:
    """Cut, spliced, with wrong bytes."""
    kind, at = rng.randrange(7), rng.randrange(len(message) + 1)
    if kind == 0:
        return message[:at]
    if kind == 1:
        return message[:at] + other[rng.randrange(len(other) + 1) :]
    if kind == 2:
        return message[:at] + bytes([rng.randrange(256)]) + message[at + 1 :]
    if kind == 3:
        return (
            message[:at]
            + rng.choice([b'"', b"\\", b"{", b"}", b",", b":", b" ", b"-", b".", b"0", b"e"])
            + message[at:]
        )
    if kind == 4:
        return message[:at] + message[at + 1 :]
    return rng.choice([b"", b"null", message + message, b" " + message, message + b"\n", message + b" "])


def is_text(message: bytes) -> bool:
    """Whether it is UTF-8 without control characters: a single other message sends its batch to the decoder."""
    return message.decode(errors="replace").encode() == message and min(message, default=32) >= 32


def fuzz(seed: int, batches: int) -> int:
    """Random batches, each mostly of a few shapes. How many messages that were."""
    rng = random.Random(seed)
    total = 0
    for _ in range(batches):
        base = object_of if rng.random() < 0.2 else plain_object
        bases = [base(rng, 3) for _ in range(rng.randrange(1, 4))]
        messages = [like(rng, rng.choice(bases)) for _ in range(rng.randrange(1, 60))]
        if rng.random() < 0.7:
            for _ in range(rng.randrange(1, 6)):
                place = rng.randrange(len(messages))
                messages[place] = mutated(rng, messages[place], rng.choice(messages))
        if rng.random() < 0.8:
            messages = [one for one in messages if is_text(one)] or [b"{}"]
        total += len(messages)
        check(TYPE, messages)
    return total


def test_random_messages_together_as_one_by_one() -> None:
    assert fuzz(1, 120) > 1500


def test_random_messages_are_mostly_read_by_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    match = TemplateMatcher.match

    def counted(shape: TemplateMatcher, text: MessageLines, rows: Any) -> Any:
        made = match(shape, text, rows)
        found.append(made[1] if len(text) > 1 else 0)
        return made

    monkeypatch.setattr(TemplateMatcher, "match", counted)
    assert fuzz(2, 40) < 3 * sum(found)


def test_many_random_messages_in_a_process_of_their_own(deep: bool) -> None:
    if not deep:
        pytest.skip("the long form, with --deep")
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
    code += "from sowctl.messages.json.limits import JSON_LIMITS\nJSON_LIMITS.min_array_messages = 1\n"
    code += "from tests.arrow.test_template_decoder import fuzz\nprint(sum(fuzz(seed, 1500) for seed in range(2, 12)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 200_000
