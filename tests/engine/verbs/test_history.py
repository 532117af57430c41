"""versions: the values of a record and their end, from the store and from the journals (behaviour 2; C75-C80)."""

from __future__ import annotations

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.search.keyhistory import VersionRecord
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.history import read_key_versions
from sowctl.engine.verbs.journal import list_files
from sowctl.errors import MissingError, UsageError
from sowctl.identity.hashes import hash_client_name
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MINUTE = 60 * SECOND
PAST = "<History><Window>%s</Window><Granularity>%s</Granularity></History>"


def _lab(make_lab, window: str, granularity: str, *, journalled: bool = True) -> Lab:  # type: ignore[no-untyped-def]
    xml = config_xml(topic_xml("h", PAST % (window, granularity)), ("h",) if journalled else ())
    return make_lab(xml)  # type: ignore[no-any-return]


def _play(lab: Lab, topic: str, *steps: tuple[int, str | None]) -> None:
    for minute, value in steps:
        lab.clock.at = START + minute * MINUTE
        if value is None:
            lab.open().topic(topic).delete(filter="/id = 1")
        else:
            lab.publish(topic, message(id=1, v=value))


def _versions(lab: Lab, topic: str, *texts: str, **options: bool) -> tuple[list[VersionRecord], list[str]]:
    instance = lab.open()
    batch, missing = read_key_versions(instance, resolve_targets(instance, topic)[0], texts or ("1",), **options)
    assert batch.topic == topic
    return list(batch.records), missing


def _rows(lab: Lab, topic: str, **options: bool) -> list[tuple[str, int, int | None, bool]]:
    """Return value (- for a deletion), minute, minute of its end, and whether it is lossy."""
    records, missing = _versions(lab, topic, **options)
    assert not missing
    return [
        (
            "-" if r.deleted else r.payload.decode()[-3],
            (r.timestamp - START) // MINUTE,
            None if r.until is None else (r.until - START) // MINUTE,
            r.lossy,
        )
        for r in records
    ]


TIMELINE_A = ((0, "a"), (4, "b"), (8, "c"), (12, "d"), (25, "e"))


@pytest.fixture(params=["live", "rebuilt", "behind", "alone"])
def kept(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _as(lab: Lab, kept: str) -> None:
    if kept in ("rebuilt", "behind"):
        lab.forget("h")
    if kept == "rebuilt":
        lab.open().topic("h").replay()


def test_the_versions_that_the_granularity_leaves(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]  # C75
    lab = _lab(make_lab, "1h", "10m", journalled=kept != "alone")
    _play(lab, "h", *TIMELINE_A)
    _as(lab, kept)
    assert _rows(lab, "h") == [("a", 0, 12, True), ("d", 12, 25, False), ("e", 25, None, False)]


def test_the_journal_has_those_that_the_granularity_dropped(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "10m")
    _play(lab, "h", *TIMELINE_A)
    expected = [("a", 0, 4), ("b", 4, 8), ("c", 8, 12), ("d", 12, 25), ("e", 25, None)]
    assert [row[:3] for row in _rows(lab, "h", journal=True)] == expected


def test_deletions_are_versions_without_a_message(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]  # C77, C80
    lab = _lab(make_lab, "1h", "0s", journalled=kept != "alone")
    _play(lab, "h", (0, "a"), (30, None), (40, "b"), (50, None))
    _as(lab, kept)
    assert [row[:3] for row in _rows(lab, "h")] == [("a", 0, 30), ("-", 30, 40), ("b", 40, 50), ("-", 50, None)]
    record = _versions(lab, "h")[0][1]
    assert (record.has_data, record.payload, record.extra["operation"]) == (False, b"", "delete")


def test_what_has_left_the_window_is_not_shown(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]  # C78, C79
    lab = _lab(make_lab, "1h", "0s", journalled=kept != "alone")
    _play(lab, "h", (0, "a"), (30, "b"))
    _as(lab, kept)
    lab.clock.at = START + 91 * MINUTE
    assert [row[0] for row in _rows(lab, "h")] == ["b"]
    lab.clock.at = START + 90 * MINUTE
    assert [row[0] for row in _rows(lab, "h")] == ["a", "b"]


def test_a_key_of_which_only_an_old_deletion_is_left_is_unknown(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "0s", journalled=kept != "alone")
    _play(lab, "h", (0, "a"), (1, None))
    _as(lab, kept)
    lab.clock.at = START + 62 * MINUTE
    assert _versions(lab, "h", "1", "2") == ([], ["1", "2"])


def test_keys_are_sow_keys_or_texts_of_key_fields(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "0s")
    lab.publish("h", '{"id":1}', '{"id":2}')
    number = str(lab.records("h", "/id = 2")[0].sow_key)
    for options in ({}, {"journal": True}):
        found, missing = _versions(lab, "h", number, "1", "77", **options)
        assert ([r.payload for r in found], missing) == ([b'{"id":2}', b'{"id":1}'], ["77"])
        assert _versions(lab, "h", number, fields=True, **options)[1] == [number]


def test_a_store_file_by_its_path(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "0s", journalled=False)
    _play(lab, "h", (0, "a"), (5, "b"))
    instance = lab.open()
    batch, missing = read_key_versions(instance, resolve_targets(instance, str(lab.store("h")))[0], ["1", "9"])
    assert ([r.payload[-3:-2] for r in batch.records], missing) == ([b"a", b"b"], ["9"])


def test_a_topic_without_history_answers_from_its_journal_only(lab: Lab) -> None:
    _play(lab, "t", (0, "a"), (10, "b"), (20, None))
    with pytest.raises(UsageError) as caught:
        _versions(lab, "t")
    assert (caught.value.code, "--journal" in str(caught.value.hint)) == ("SOW-QRY-022", True)
    assert [row[:3] for row in _rows(lab, "t", journal=True)] == [("a", 0, 10), ("b", 10, 20), ("-", 20, None)]
    lab.publish("alone", '{"id":1}')
    for options, error in (({}, UsageError), ({"journal": True}, MissingError)):
        with pytest.raises(error):
            _versions(lab, "alone", **options)


def test_an_expired_record_was_current_until_its_stamp(lab: Lab) -> None:  # C34, C41
    lab.publish("quotes", '{"id":1,"v":"a"}', expiration=60)
    lab.clock.tick(120)
    lab.publish("quotes", '{"id":1,"v":"b"}', expiration=60)
    assert _rows(lab, "quotes", journal=True) == [("a", 0, 1, False), ("b", 2, None, False)]
    lab.clock.tick(60)
    assert _rows(lab, "quotes", journal=True)[-1] == ("b", 2, 3, False)


def test_an_expired_version_ends_from_the_instant_of_its_stamp_on(lab: Lab) -> None:
    lab.publish("quotes", message(id=1), expiration=60)
    lab.publish("quotes", message(id=2), message(id=2, v="instead"), expiration=60)
    lab.publish("fading", message(id=1))
    untils = []
    for lab.clock.at in (START + MINUTE - 1, START + MINUTE):
        (row,) = _versions(lab, "quotes", journal=True)[0]
        (endless,) = _versions(lab, "fading", journal=True)[0]
        untils.append((row.until, endless.until))
    assert untils == [(None, None), (START + MINUTE, None)]
    # A replaced version ends at the replacement, although its own stamp has passed, too.
    replaced = _versions(lab, "quotes", "2", journal=True)[0]
    assert [row.until for row in replaced] == [START, START + MINUTE]
    lab.config.write_text(lab.config.read_text().replace("<Expiration>30s<", "<Expiration>disabled<"))
    assert _versions(lab, "quotes", journal=True)[0][0].until is None


def test_a_journalled_version_has_its_bookmark(lab: Lab) -> None:
    lab.open().topic("t").publish([b'{"id":1}', b'{"id":1,"v":2}'], PublishOptions(client="c", sequence=7))
    records, _ = _versions(lab, "t", journal=True)
    assert [r.bookmark for r in records] == [f"{hash_client_name('c')}|7|", f"{hash_client_name('c')}|8|"]
    assert records[1].extra["client"] == "c"


def test_journals_that_do_not_reach_back_are_said_to(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.journal_size = 1024
    for number in range(40):
        lab.publish("t", message(id=1, x="x" * 100, v=number))
    for file in lab.journals()[:-1]:
        file.unlink()
    records, _ = _versions(lab, "t", journal=True)
    assert 0 < len(records) < 14
    (first,) = [file.first_txid for file in list_files(lab.open())]
    assert any("'t'" in note and f"txid {first} " in note for note in lab.notes)
