"""Stored states of released versions stay readable: for topics without a journal, nothing else has the data.

:func:`write_sample` of version 1 wrote ``tests/formats/v1/conflated.sow``, which never changes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from msgspec import json as msgjson

from sowctl.engine.verbs.conflate import advance_conflated
from sowctl.engine.views.conflation.state_tables import PENDING_TABLE, SEEN_TABLE, read_pending, read_state
from sowctl.store.env import Store
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

GOLDEN = Path(__file__).parents[3] / "formats" / "v1" / "conflated.sow"
CONFLATED = (
    "<ConflatedTopic><Name>c</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic></ConflatedTopic>"
)
XML = config_xml(topic_xml("t") + CONFLATED, ())


def write_sample(directory: Path) -> Path:
    """Write a shown message, one with a pending change, one with a pending removal, and one that is only pending."""
    lab = Lab(directory, XML)
    lab.publish("t", *(message(id=n, v=0) for n in range(3)))
    list(advance_conflated(lab.open()))
    lab.clock.tick(5)
    list(advance_conflated(lab.open()))
    lab.clock.tick(1)
    lab.publish("t", message(id=1, v=1), message(id=3, v=3))
    lab.open().topic("t").delete(filter="/id = 2")
    list(advance_conflated(lab.open()))
    return directory / "sow" / "t.json.sow-views" / "c.json.sow"


def test_the_file_of_version_1(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", XML)
    place = lab.directory / "sow" / "t.json.sow-views" / "c.json.sow"
    place.parent.mkdir(parents=True)
    shutil.copy(GOLDEN, place)
    with Store.open(place, write=False) as store, store.open_snapshot() as snapshot:
        kept, pending = read_state(snapshot), read_pending(snapshot)
        seen = snapshot.open_table(SEEN_TABLE)
        assert seen is not None
        assert (len(seen), snapshot.open_table(PENDING_TABLE) is not None) == (3, True)
    assert kept is not None
    assert msgjson.decode(msgjson.encode(kept)) == {
        "version": 1,
        "definition": kept.definition,
        "lineage": "",
        "applied": 0,
        "clock": START + 6 * SECOND,
        "due": START + 11 * SECOND,
        "source": kept.source,
        "block": None,  # written by later versions, and only if a journal records the source
    }
    assert [one.opened for one in pending.values()] == [START + 6 * SECOND] * 3
    lab.clock.at = START + 6 * SECOND
    assert sorted(json.loads(payload)["id"] for payload in lab.query("c")) == [0, 1, 2]
    # It continues where the golden state ends.
    lab.publish("t", message(id=0, v=0), message(id=1, v=1), message(id=3, v=3))
    lab.clock.tick(5)
    list(advance_conflated(lab.open()))
    assert {1: 1, 3: 3}.items() <= {one["id"]: one["v"] for one in map(json.loads, lab.query("c"))}.items()


def test_the_writer_of_today_writes_the_same(tmp_path: Path) -> None:
    # Read in a directory where lock files may be created.
    shutil.copy(GOLDEN, tmp_path / "golden.sow")
    fresh, golden = (_content(place) for place in (write_sample(tmp_path / "lab"), tmp_path / "golden.sow"))
    assert fresh == golden


def _content(path: Path) -> tuple[object, ...]:
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        return read_pending(snapshot), snapshot.meta.digest, read_state(snapshot)
