"""Slab sizes: the largest message of a topic, by current and retired elements; hints change nothing."""

from __future__ import annotations

import pytest

from sowctl.errors import InputError
from tests.support.instances import config_xml, message, topic_xml

OVERHEAD = 64
RETIRED = "<RecordSize>64</RecordSize><IncrementSize>4</IncrementSize>"


def _of_size(size: int) -> str:
    empty = len(message(id=1, x=""))
    return message(id=1, x="x" * (size - empty))


@pytest.mark.parametrize(
    ("parts", "slab"),
    [
        ("<SlabSize>1KB</SlabSize>", 1024),
        (RETIRED, 256),
        (RETIRED + "<InitialSize>1000</InitialSize>", 256),
        (RETIRED + "<SlabSize>1KB</SlabSize>", 1024),
        ("<InitialSize>1000</InitialSize>", 512_000),
    ],
)
def test_the_largest_message(make_lab, parts: str, slab: int) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("t", parts), ("t",)))
    assert lab.publish("t", _of_size(slab - OVERHEAD)).inserted == 1
    with pytest.raises(InputError) as caught:
        lab.publish("t", _of_size(slab - OVERHEAD + 1))
    assert caught.value.code == "SOW-PUB-001"
    assert f"SlabSize {slab}" in caught.value.message and str(slab - OVERHEAD) in caught.value.message
    assert "SlabSize" in (caught.value.hint or "") and 'on_error="skip"' in (caught.value.hint or "")


def test_counts_are_hints(make_lab) -> None:  # type: ignore[no-untyped-def]
    hints = "<InitialSlabCount>1024</InitialSlabCount><ExpectedKeyCountHint>2</ExpectedKeyCountHint>"
    hinted = make_lab(config_xml(topic_xml("t", hints), ("t",)), name="hinted")
    plain = make_lab(config_xml(topic_xml("t"), ("t",)), name="plain")
    for lab in (hinted, plain):
        lab.publish("t", *(message(id=n) for n in range(5)))
    assert hinted.digest("t") == plain.digest("t")
    assert hinted.store("t").stat().st_size == plain.store("t").stat().st_size
