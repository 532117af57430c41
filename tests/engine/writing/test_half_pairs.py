"""Half a surrogate pair in a key: rejected before anything is journalled, wherever keys are made of messages."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.key import KeyFinder
from sowctl.engine.verbs.publish import publish_messages
from sowctl.errors import InputError, UsageError
from sowctl.messages.framing.frames import FrameReader
from tests.engine.conftest import MakeLab
from tests.support.chains import chained
from tests.support.instances import Lab, config_xml, message, topic_xml, verified
from tests.support.staged import make, run

HALVES = (r'{"id":"\ud800k","v":1}', r'{"id":"\ud801k","v":2}', r'{"id":"\udfffk","v":5}')
MEANT = '{"id":"\ufffdk","v":4}'
CODE = "SOW-IDN-010"


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("topic", ["t", "alone"])
def test_no_two_keys_become_one(lab: Lab, topic: str, batch: int) -> None:
    report = lab.publish(topic, *HALVES, MEANT, message(id=1), batch=batch, on_error="skip")
    assert (report.inserted, report.updated, report.rejected) == (2, 0, 3)
    assert lab.query(topic, "/v IS NOT NULL") == [MEANT]
    with pytest.raises(InputError, match="/id ") as caught:
        lab.publish(topic, HALVES[0])
    assert (caught.value.code, caught.value.exit_status) == (CODE, 3)
    assert caught.value.hint


def test_a_pair_is_a_key_and_a_half_elsewhere_is_data(lab: Lab) -> None:
    texts = (r'{"id":"\ud83d\ude00"}', r'{"id":2,"v":"\ud800"}')
    assert lab.publish("t", *texts).inserted == 2
    assert sorted(lab.query("t")) == sorted(texts)


def test_every_verb_that_makes_keys(lab: Lab) -> None:
    lab.publish("t", MEANT)
    instance = lab.open()
    topic = instance.topic("t")
    told, refused = KeyFinder(instance, topic.config, PublishOptions()).find_keys([HALVES[0].encode(), MEANT.encode()])
    assert ([one.texts for one in told], [one.code for one in refused]) == ([("\ufffdk",)], [CODE])
    with pytest.raises(InputError, match=r"/id .*surrogate") as caught:
        topic.delete(data=[HALVES[0].encode()])
    assert caught.value.code == "SOW-DEL-004"
    assert lab.query("t") == [MEANT]
    assert [record.payload.decode() for record in topic.get("\ufffdk", fields=True)] == [MEANT]


@pytest.mark.parametrize(("topic", "fields"), [("t", True), ("own", False)])
def test_a_key_that_is_asked_for(lab: Lab, topic: str, fields: bool) -> None:
    lab.publish("t", message(id=1))
    lab.publish("own", message(id=1), sow_key="YQ==")
    with pytest.raises(UsageError) as caught:
        lab.open().topic(topic).get("\ud800k", fields=fields)
    assert caught.value.code == "SOW-IDN-011"
    assert not list(lab.open().topic("t").get("\udcffk", fields=True))


def test_keys_that_preprocessing_writes(make_lab: MakeLab) -> None:
    fields = "<Preprocessing><Field>CONCAT(/id, '-', /n) AS /k</Field></Preprocessing>"
    lab = make_lab(config_xml(topic_xml("p", fields, key="/k"), ("p",)))
    report = lab.publish("p", *HALVES, MEANT, r'{"id":3,"other":"\ud800"}', on_error="skip")
    assert (report.inserted, report.rejected) == (2, 3)
    assert len({record.sow_key for record in lab.records("p")}) == 2


def test_chains(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    report = lab.publish("c", *HALVES, r'{"id":7,"parent":"\ud800"}', MEANT, on_error="skip")
    assert (report.inserted, report.rejected) == (1, 4)


def test_a_bulk_load_refuses_the_same(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        for topic in ("log", "alone", "rich"):
            report = run(lab, topic, [*HALVES, MEANT], [message(id=1)])
            assert (report.inserted, report.rejected) == (2, 3), topic
            assert {sample.code for sample in report.samples} == {CODE}


def test_a_logical_topic(make_lab: MakeLab) -> None:
    """An invalid name would merge the records of all such names."""
    lab = make_lab(config_xml(topic_xml("p", "<Pattern>^p-.*</Pattern>"), ("p",)))
    lines = b"".join(b'{"topic":"p-%b","data":{"id":1}}\n' % name for name in (rb"\ud800", rb"\ud801", b"a"))
    reader = FrameReader(io.BytesIO(lines), "envelope")
    refused: list[str] = []
    options = PublishOptions(on_error="skip")
    report = publish_messages(
        lab.open(), None, [("in", reader)], options, on_reject=lambda one: refused.append(one.code)
    )
    assert (report.inserted, refused) == (1, [CODE, CODE])
