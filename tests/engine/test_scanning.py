"""Two processes filter a large store as one does, and nobody notices when the second one fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine import scanning
from sowctl.engine.reading import Matcher
from sowctl.engine.words import Words, needed_words
from sowctl.errors import DamageError, InputError, RefusedError
from sowctl.expressions.environment import Environment
from sowctl.expressions.parse import parse_filter
from sowctl.messages.jsontype import JsonType
from sowctl.store import codec
from tests.support.instances import Lab, config_xml, message, topic_xml

COUNT = 3000
WORDS = ("red", "green", 'a"b', "a\\b", "ünï", "a/b", "7", "", "\x7f")


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Large is what has ten records; the list gets the ids of the second processes."""
    started: list[int] = []

    def fork(original: Callable[[], int] = os.fork) -> int:
        child = original()
        started.append(child)
        return child

    monkeypatch.setattr(scanning, "LARGE", 10)
    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return started


def fill(lab: Lab, topic: str = "t") -> list[str]:
    payloads = [message(id=n, v=n % 7, s=WORDS[n % len(WORDS)]) for n in range(COUNT)]
    lab.publish(topic, *payloads)
    return payloads


@pytest.mark.parametrize("order", [None, "/v DESC, /id"])
def test_two_find_what_one_finds(
    lab: Lab, forks: list[int], order: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    in_two = lab.open().topic("t").query("/v > 3", order_by=order)
    found = [record.payload for record in in_two.records()]
    assert len(forks) == 1
    monkeypatch.setattr(scanning, "LARGE", 1 << 40)
    alone = lab.open().topic("t").query("/v > 3", order_by=order)
    assert [record.payload for record in alone.records()] == found
    assert in_two.statistics == alone.statistics
    assert in_two.statistics[0].examined == COUNT
    assert len(forks) == 1


def test_what_is_not_applied_yet_is_seen_in_both_halves(lab: Lab, forks: list[int]) -> None:
    fill(lab)
    old = lab.store("t").read_bytes()
    lab.publish("t", *(message(id=n, v=100) for n in range(0, COUNT + 50, 10)))
    lab.open().topic("t").delete(filter="/id < 5")
    lab.store("t").write_bytes(old)
    for leftover in lab.store("t").parent.glob("t.json.sow-*"):
        leftover.unlink()
    found = {json.loads(text)["id"] for text in lab.query("t", "/v = 100")}
    assert found == set(range(10, COUNT + 50, 10))
    assert len(lab.query("t", "/id < 5")) == 0
    assert len(forks) == 2
    lab.open().topic("t").replay()


def test_a_second_process_that_fails_is_not_missed(lab: Lab, forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lab)
    expected = lab.query("t", "/v = 1")
    monkeypatch.setattr(scanning.Second, "_work", lambda *_: os._exit(9))
    assert lab.query("t", "/v = 1") == expected
    assert len(forks) == 2


def test_a_second_process_that_saw_another_state_does_not_count(
    lab: Lab, forks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    original = scanning.open_source

    def open_source(*arguments: object) -> scanning.Source:
        if forks:
            lab.clock.tick(1)
            forks.clear()
            lab.publish("t", message(id=1, v=1000), message(id=COUNT + 1, v=1000))
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(scanning, "open_source", open_source)
    result = lab.open().topic("t").query("/v = 1000")
    assert len(list(result.records())) == 2
    assert result.statistics[0].examined == COUNT + 1


def test_errors_are_those_of_one_process(lab: Lab, forks: list[int]) -> None:
    lab.publish("own", *(b"{}" for _ in range(5)), sow_key="a")
    for number in range(40):
        lab.publish("own", b"no JSON" if number == 30 else b"{}", sow_key=f"k{number}")
    with pytest.raises(InputError) as caught:
        lab.query("own", "/a = 'x'")
    assert caught.value.code == "SOW-QRY-004"
    assert forks


def test_damage_is_found_in_either_half(make_lab: Callable[..., Lab], forks: list[int], tmp_path: Path) -> None:
    lab = Lab(tmp_path / "bad", config_xml(topic_xml("t"), ("t",)))
    payloads = fill(lab)
    path = lab.store("t")
    whole = path.read_bytes()
    for payload in (payloads[n].encode() for n in (5, 500, 1500, 2500)):
        place = whole.rindex(payload)
        path.write_bytes(whole[:place] + b"[" + whole[place + 1 :])
        with pytest.raises(DamageError) as caught:
            lab.query("t", "/v = 1")
        assert caught.value.code == "SOW-STO-001"


def test_what_was_read_before_damage_comes_first(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "bad", config_xml(topic_xml("t"), ("t",)))
    fill(lab)
    payloads = lab.query("t")
    path = lab.store("t")
    whole = path.read_bytes()
    place = whole.rindex(payloads[-1].encode())
    path.write_bytes(whole[:place] + b"[" + whole[place + 1 :])
    found = []
    with pytest.raises(DamageError) as caught:
        for record in lab.open().topic("t").query("/s = 'red'").records():
            found.append(record.payload)
    assert caught.value.code == "SOW-STO-001"
    sound = (COUNT - 1) // scanning.READ * scanning.READ
    assert found == [payload.encode() for payload in payloads[:sound] if '"red"' in payload]
    assert 0 < len(found) < scanning.DECODED


def test_questions_while_a_result_is_read(lab: Lab, forks: list[int]) -> None:
    """The topic's store is open then: readers share it, and a fork that cannot have it is not missed."""
    fill(lab)
    topic = lab.open().topic("t")
    wanted = [record.payload for record in topic.query("/v > 3").records()]
    seen = []
    for batch in topic.query("/v > 3", batch_size=500):
        (record,) = topic.get(str(batch.records[0].sow_key))
        assert record.payload == batch.payloads[0]
        assert [found.payload for found in topic.query("/v > 3").records()] == wanted
        seen += batch.payloads
    assert seen == wanted
    assert len(forks) > 2
    assert topic.publish([message(id=1, v=9, s="red").encode()]).published == 1, "nobody has it open any more"


def test_writing_while_a_result_is_read_is_refused(lab: Lab) -> None:
    fill(lab)
    topic = lab.open().topic("t")
    result = iter(topic.query("/v > 3", batch_size=500))
    next(result)
    with pytest.raises(RefusedError) as raised:
        topic.publish([message(id=1, v=9, s="red").encode()])
    assert raised.value.code == "SOW-STO-027"
    assert raised.value.hint is not None
    assert "read the result of a query to its end" in raised.value.hint
    result.close()  # type: ignore[attr-defined]
    assert topic.publish([message(id=1, v=9, s="red").encode()]).published == 1


def test_no_process_is_left_when_the_reader_stops(lab: Lab, forks: list[int]) -> None:
    fill(lab)
    result = lab.open().topic("t").query("/v < 100", batch_size=5)
    next(iter(result))
    result.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(forks[0], os.WNOHANG)


@pytest.mark.parametrize("word", [word for word in WORDS if word])
def test_words_lose_no_record(lab: Lab, word: str) -> None:
    fill(lab)
    escaped = "".join(f"\\u{ord(character):04x}" for character in word)
    lab.publish("t", f'{{"id":-1,"s":"{escaped}"}}', message(id=-2, s=["x", word]), message(id=-3, s={"s": word}))
    literal = word.replace("\\", "\\\\")
    expected = {n for n in range(COUNT) if WORDS[n % len(WORDS)] == word} | {-1, -2}
    for text in (f"/s = '{literal}'", f"'{literal}' = /s AND /id < 100000"):
        assert {json.loads(found)["id"] for found in lab.query("t", text)} == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/a = 'x'", [b"x"]),
        ("'x' = /a AND (/b = 'y' AND /c > 1) AND /d = 'x'", [b"x", b"y"]),
        ("/a = '1.5' AND /b = ' 7 '", []),
        ("/a = 'x' OR /b = 'y'", []),
        ("NOT /a = 'x'", []),
        ("/a <> 'x' AND /b = '' AND /c = 7 AND /d = /e", []),
        ("/a = 'tab\t' AND /b = 'quote\"'", []),
        ("CONCAT(/a, 'x') = 'xx'", []),
    ],
)
def test_needed_words(text: str, words: list[bytes]) -> None:
    assert needed_words(parse_filter(text)) == words


def spelled(word: str, ways: list[int]) -> str:
    """``word`` as JSON may spell it: its characters as they are (0), with their number (1), ``/`` with a backslash."""
    parts = zip(word, ways, strict=True)
    return "".join(f"\\u{ord(c):04X}" if way == 1 else "\\/" if way and c == "/" else c for c, way in parts)


def stored(payloads: list[bytes], check: bytes = bytes(8)) -> tuple[list[bytes], list[bytes]]:
    keys = [number.to_bytes(8, "big") for number in range(len(payloads))]
    count = range(len(payloads))
    return keys, codec.encode_plain(keys, [check] * len(payloads), count, count, count, payloads)


@given(
    st.sampled_from(["a/b", "aü€", "x\x7fy"]),
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["", "a/c", "\\n", "\\u00e4\\\\u"]), st.lists(st.integers(0, 2), min_size=3))
        ),
        max_size=6,
    ),
)
def test_no_spelling_of_a_word_is_missed(word: str, batches: list[list[tuple[str, list[int]]]]) -> None:
    words = Words([word.encode()])
    for batch in batches:
        texts = [other or spelled(word, ways[:3]) for other, ways in batch]
        keys, values = stored([f'{{"s":"{text}"}}'.encode() for text in texts])
        expected = {place for place, text in enumerate(texts) if json.loads(f'"{text}"') == word}
        for run in (codec.sound_run(keys, values), None):
            found = words.holding(values, run)
            assert expected <= set(found)
            assert list(found) == sorted(set(found))
            assert all("\\" in texts[place] or place in expected for place in found)


def test_escapes_that_cannot_spell_a_word_are_passed_over() -> None:
    words = Words([b"x"])
    keys, values = stored([rb'{"s":"\u00e4\u20ac\n\/\\\"\u0019"}'] * 90 + [rb'{"s":"x"}', rb'{"s":"\u0078"}'])
    assert words.holding(values[:91], codec.sound_run(keys[:91], values[:91])) == [90]
    assert words.holding(values, None) == [90, 91]


def test_words_in_headers_and_in_other_fields_match_nothing() -> None:
    matcher = Matcher("/s = 'EMEA'", JsonType(), "t", Environment(now=lambda: 0), seen=True)
    payloads = [b'{"s":"EMEA"}', b'{"s":"APAC"}', b'{"t":"EMEA"}', b'{"s":"\\u0045MEA"}', b'{"s":1}'] + [b"{}"] * 20
    keys, values = stored(payloads, b'"EMEA"\\u')
    assert list(matcher.places(keys, values)) == [0, 3]
    assert list(matcher.possible(values, codec.sound_run(keys, values))) == list(range(len(keys)))


def test_looking_for_words_ends_where_it_spares_nothing() -> None:
    words = Words([b"x"])
    keys, values = stored([b'{"s":"x"}'] * 9 + [b"{}"])
    assert len(words.holding(values, codec.sound_run(keys, values))) == 9
    assert not words.pays


def test_scarce_words_are_found_again() -> None:
    words = Words([b"x", b"y"])
    keys, values = stored([b"{}"] * 9 + [b'{"s":"x","t":"y"}', b'{"s":"x"}'])
    for _ in range(2):
        assert not words.holding(values[:9], codec.sound_run(keys[:9], values[:9]))
    assert words.holding(values, codec.sound_run(keys, values)) == [9]
