"""replay --verify: agrees with intact stores, reports differing ones, writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.errors import DamageError
from sowctl.output.reports import format_report
from sowctl.store.check import check_store
from tests.support.damage import overwrite
from tests.support.instances import SECOND, Lab, message
from tests.support.replays import run, timeline


@pytest.fixture(params=["t", "past"])
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_verify_agrees_and_writes_nothing(lab: Lab, topic: str) -> None:
    timeline(lab, topic)
    before = lab.store(topic).read_bytes()
    (report,) = run(lab, topic, verify=True)
    assert report.action == "verified"
    assert report.digest == lab.digest(topic)
    assert lab.store(topic).read_bytes() == before


@pytest.mark.parametrize("harm", ["changed", "lost", "older"])
def test_verify_notices_what_checksums_cannot(lab: Lab, harm: str, tmp_path: Path) -> None:
    """A record replaced, removed or restored in the right format: checksums agree, the journal does not."""
    from sowctl.store.codec import encode_record, read_stamps
    from sowctl.store.env import Store

    timeline(lab, "t")
    good = lab.store("t").read_bytes()
    with Store.open(lab.store("t"), write=True) as store:
        with store.open_snapshot() as snapshot:
            keys, values = next(iter(snapshot.scan_records()))
        key, value = keys[0], values[0]
        txid, time = read_stamps(value)

        def change(txn) -> None:  # type: ignore[no-untyped-def]
            if harm == "lost":
                txn.delete_records([key])
            else:
                at = (txid, time) if harm == "changed" else (txid - 4, time - 4 * SECOND)
                txn.put_records([key], [encode_record(key, value[28:36], *at, 0, 0, b'{"id":0,"v":777}')])

        store.write(change)
    assert list(check_store(lab.store("t"))) == []
    (report,) = run(lab, "t", verify=True)
    assert report.action == "differs"
    assert report.digest != report.other_digest
    assert run(lab, "t")[0].action == "current", "a sound store at its position is not replaced unasked"
    assert run(lab, "t", rebuild=True)[0].action == "rebuilt"
    assert run(lab, "t", verify=True)[0].action == "verified"
    assert good


def test_verify_of_a_damaged_or_missing_store_says_that_it_differs(lab: Lab) -> None:
    timeline(lab, "t")
    good = lab.store("t").read_bytes()
    overwrite(lab.store("t"), 0, bytes(8192))
    assert run(lab, "t", verify=True)[0].action == "differs"
    lab.store("t").write_bytes(good)
    timeline(lab, "quotes")
    assert run(lab, "quotes", "t", verify=True)[1].action == "verified"


def test_verify_tells_a_missing_store_from_a_topic_that_was_never_used(lab: Lab) -> None:
    lab.publish("t", '{"id":1}')
    assert lab.open().topic("quotes").replay(verify=True).action == "skipped"
    lab.forget("t")
    report = lab.open().topic("t").replay(verify=True)
    assert report.action == "differs" and "missing" in str(report.note)
    assert format_report(report) == f"t: differs: {report.note}"


def test_verify_names_the_store_and_not_the_one_that_was_built_aside(lab: Lab, topic: str) -> None:
    timeline(lab, topic)
    assert run(lab, topic, verify=True)[0].path == str(lab.store(topic))
    _replace_one(lab, topic)
    (report,) = run(lab, topic, verify=True)
    assert (report.action, report.path) == ("differs", str(lab.store(topic)))


def test_verify_stops_at_a_damaged_journal(lab: Lab) -> None:
    """Nothing was compared then, which differs from a reported difference."""
    timeline(lab, "t")
    (journal,) = lab.journals()
    good = journal.read_bytes()
    overwrite(journal, len(good) // 2, b"damage")
    with pytest.raises(DamageError) as caught:
        run(lab, "t", verify=True)
    assert caught.value.code.startswith("SOW-JRN-")
    assert caught.value.exit_status == 5
    journal.write_bytes(good)


@pytest.mark.parametrize("name", ["t", "past", "quotes"])
def test_verify_of_what_older_journals_held_says_that_it_cannot(lab: Lab, name: str) -> None:
    """The records in the remaining journal files are compared; other records are neither right nor wrong."""
    lab.journal_size = 1024
    for number in range(40):
        lab.publish(name, message(id=number, v="x" * 100))
        lab.clock.tick(1)
    lab.open().topic(name).delete(filter="/id = 39")
    for file in lab.journals()[:3]:
        file.unlink()
    (report,) = run(lab, name, verify=True)
    assert report.action == "not verified"
    assert "begin at txid" in str(report.note)
    assert report.path == str(lab.store(name))
    _replace_one(lab, name)
    (report,) = run(lab, name, verify=True)
    assert report.action == "differs"


def _replace_one(lab: Lab, topic: str) -> None:
    """Write another payload into the record with the highest txid, in the right format."""
    from sowctl.store.codec import encode_record, extract_payloads, read_stamps
    from sowctl.store.env import Store

    with Store.open(lab.store(topic), write=True) as store:
        with store.open_snapshot() as snapshot:
            pairs = [pair for keys, values in snapshot.scan_records() for pair in zip(keys, values, strict=True)]
        key, value = max(pairs, key=lambda pair: read_stamps(pair[1])[0])
        expiration = int.from_bytes(value[20:28], "little")
        payload = extract_payloads([value])[0].replace(b'"v":', b'"w":')
        changed = encode_record(key, value[28:36], *read_stamps(value), expiration, 0, payload)
        store.write(lambda txn: txn.put_records([key], [changed]))
