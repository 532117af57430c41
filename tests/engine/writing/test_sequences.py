"""Sequence numbers if a run dies between journal and stores: a retry adds the missing messages, none twice."""

from __future__ import annotations

import errno
import io
import json
from pathlib import Path

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.publish import publish_messages
from sowctl.errors import LimitError, StorageError, UsageError
from sowctl.messages.framing.frames import FrameReader
from sowctl.seam import SEAM, Seam
from tests.support.faults import FailAt
from tests.support.instances import Lab, topic_xml


def _send(lab: Lab, seam: Seam, topic_names: str) -> tuple[int, int]:
    """Send one numbered message per letter, to t or to alone; return the published and duplicate counts."""
    names = {"t": "t", "a": "alone"}
    rows = [{"topic": names[letter], "sequence": n, "data": {"id": n}} for n, letter in enumerate(topic_names, start=1)]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    source = FrameReader(io.BytesIO(lines), "envelope")
    report = publish_messages(lab.open(seam=seam), None, [("in", source)], PublishOptions(client="c", batch=4))
    return report.published, report.duplicates


def _ids(lab: Lab, topic: str) -> list[int]:
    return sorted(json.loads(text)["id"] for text in lab.query(topic))


@pytest.mark.parametrize("call", range(1, 7))
@pytest.mark.parametrize("topic_names", ["tata", "atta", "aatt", "ttaa", "tatatata"])
def test_a_failure_between_journal_and_store_loses_nothing_on_repetition(lab: Lab, topic_names: str, call: int) -> None:
    lab.publish("t", '{"id":99}')
    lab.publish("alone", '{"id":99}')
    try:
        _send(lab, FailAt(call, errno.EIO, points=("lmdb.commit", "file.sync")), topic_names)
    except StorageError:
        published, duplicates = _send(lab, SEAM, topic_names)
        assert published + duplicates == len(topic_names)
    expected = [[n for n, letter in enumerate(topic_names, start=1) if letter == which] + [99] for which in "ta"]
    assert [_ids(lab, "t"), _ids(lab, "alone")] == expected
    assert _send(lab, SEAM, topic_names) == (0, len(topic_names))


def test_a_silent_publisher_is_never_forgotten_and_the_manual_says_so(tmp_path: Path) -> None:
    log = (
        "<TransactionLog><JournalDirectory>journal</JournalDirectory>"
        "<InactiveClientAckExpiration>1h</InactiveClientAckExpiration>"
        "<Topic><Name>t</Name><MessageType>json</MessageType></Topic></TransactionLog>"
    )
    lab = Lab(tmp_path, f"<AMPSConfig><Name>i</Name><SOW>{topic_xml('t')}</SOW>{log}</AMPSConfig>")
    assert _send(lab, SEAM, "tt") == (2, 0)
    lab.clock.tick(5 * 3600)
    assert _send(lab, SEAM, "tt") == (0, 2)
    page = (Path(__file__).parents[3] / "man" / "sow-config.5").read_text(encoding="utf-8")
    told = page.partition(".B InactiveClientAckExpiration\n")[2].partition(".TP")[0]
    assert "Checked; has no effect" in told


LAST = 2**64 - 1


def test_the_last_sequence_number_is_taken_and_none_follows_it(lab: Lab) -> None:
    lab.publish("t", '{"id":1}', client="c", sequence=LAST)
    for topic in ("t", "alone"):
        lab.publish(topic, '{"id":1}', client=f"of {topic}", sequence=LAST)
        with pytest.raises(LimitError) as caught:
            lab.publish(topic, '{"id":2}', client=f"of {topic}")
        assert caught.value.code == "SOW-PUB-029"
        # An explicit number is checked as before: it was already published.
        assert lab.publish(topic, '{"id":1}', client=f"of {topic}", sequence=LAST).duplicates == 1
    assert _ids(lab, "t") == _ids(lab, "alone") == [1]


def test_batches_before_the_last_number_are_published(lab: Lab) -> None:
    with pytest.raises(LimitError) as caught:
        lab.publish("t", '{"id":1}', '{"id":2}', '{"id":3}', client="c", sequence=LAST - 1, batch=1)
    assert caught.value.code == "SOW-PUB-029"
    assert _ids(lab, "t") == [1, 2]


def test_a_number_beyond_64_bits_is_a_usage_error(lab: Lab) -> None:
    for number in (0, LAST + 1):
        with pytest.raises(UsageError) as caught:
            lab.publish("t", '{"id":1}', client="c", sequence=number)
        assert caught.value.code == "SOW-PUB-012"
