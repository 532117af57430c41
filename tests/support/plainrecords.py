"""Records in plain Python, changed by the same steps as an instance: the expected result of changes."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml

LIFETIMES = "<Expiration>enabled</Expiration>"
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(0, 3), st.integers(0, 2), st.sampled_from([0, 0, 3, 8])),
    st.tuples(st.just("delta"), st.integers(0, 3), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 3), st.just(0), st.just(0)),
    st.tuples(st.just("other"), st.just(0), st.just(0), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([1, 4, 9]), st.just(0), st.just(0)),
    st.tuples(st.just("expire"), st.just(0), st.just(0), st.just(0)),
    st.tuples(st.just("read"), st.just(0), st.just(0), st.just(0)),
)
Step = tuple[str, int, int, int]


class PlainRecords:
    """Records by id: fields, and the time at which they expire (0: never)."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[dict[str, int], int]] = {}

    def visible(self, now: int) -> dict[int, dict[str, int]]:
        return {key: fields for key, (fields, end) in self.rows.items() if not 0 < end <= now}

    def publish(self, key: int, fields: dict[str, int], now: int, lifetime: int, *, delta: bool) -> None:
        before = self.visible(now).get(key, {}) if delta else {}
        # A delta without its own lifetime has none.
        self.rows[key] = before | fields, now + lifetime * SECOND if lifetime else 0


def apply_step(lab: Lab, plain: PlainRecords, step: Step) -> None:
    """Apply a step to the instance and to the plain records."""
    word, number, value, lifetime = step
    if word in ("publish", "delta"):
        fields = {"id": number, ("a" if word == "publish" else "b"): value}
        lab.publish("t", message(**fields), delta=word == "delta", expiration=lifetime or None)
        plain.publish(number, fields, lab.clock.at, lifetime, delta=word == "delta")
    elif word == "delete":
        lab.open().topic("t").delete(filter=f"/id = {number}")
        if number in plain.visible(lab.clock.at):
            del plain.rows[number]
    elif word == "other":
        lab.publish("u", message(id=1))
    elif word == "wait":
        lab.clock.tick(number)
    elif word == "expire":
        lab.open().topic("t").expire()


def make_lab(directory: Path, *parts: str) -> Lab:
    """An instance with the journalled topics t and u."""
    return Lab(directory, config_xml(topic_xml("t", *parts) + topic_xml("u"), ("t", "u")))
