"""A queue against a model of it, over random histories: who has what, in which order it comes, what is left.

After every step the state says what the model says; at the end it is that of the journal (``check``), and a state made
anew from the journal has the same messages.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.queues.queue import QueueMessage, build_handle
from sowctl.engine.queues.verification import verify_queue_state
from sowctl.engine.topics.queuestates import list_configured_queues
from tests.support.instances import message
from tests.support.queues import QueueLab, id_of, ids, lab_xml, queue_xml

PERIOD = 10
DELAY = 4

steps = st.one_of(
    st.tuples(st.just("put"), st.lists(st.integers(0, 3), min_size=1, max_size=6)),
    st.tuples(st.just("lease"), st.integers(1, 4)),
    st.tuples(st.sampled_from(("ack", "cancel", "late", "untouched")), st.integers(0, 5)),
    st.tuples(st.just("tick"), st.integers(1, 6)),
    st.tuples(st.just("renew"), st.integers(0, 5)),
    st.tuples(st.sampled_from(("requeue", "expire")), st.integers(0, 5)),
)


class Model:
    """Messages by id: priority, state, until when, counters."""

    def __init__(self, max_cancels: int, max_deliveries: int) -> None:
        self.now = 0
        self.rows: dict[int, dict[str, int | str]] = {}
        self.limits = max_cancels, max_deliveries
        self.dead: dict[int, int] = {}

    def order(self) -> list[int]:
        return sorted(self.rows, key=lambda number: (-int(self.rows[number]["priority"]), number))

    def settle(self) -> None:
        for number in list(self.rows):
            row = self.rows[number]
            if row["state"] != "ready" and int(row["until"]) <= self.now:
                self.give_back(number) if row["state"] == "leased" else row.update(state="ready", until=0)

    def give_back(self, number: int, *, cancelled: bool = False, delay: int = 0) -> None:
        row = self.rows[number]
        row["cancels"] = int(row["cancels"]) + cancelled
        cancels, deliveries = self.limits
        if (cancelled and 0 < cancels <= int(row["cancels"])) or 0 < deliveries <= int(row["deliveries"]):
            self.dead[number] = int(self.rows.pop(number)["priority"])
            return
        row.update(state="delayed" if delay else "ready", until=self.now + delay if delay else 0)


@given(st.lists(steps, max_size=40), st.booleans(), st.sampled_from((0, 2)), st.sampled_from((0, 3)))
def test_a_queue_is_its_model(history: list[tuple[str, object]], ranked: bool, cancels: int, deliveries: int) -> None:
    parts = [f"<LeasePeriod>{PERIOD}s</LeasePeriod>"]
    parts += ["<Priority>/p</Priority>"] if ranked else []
    parts += [f"<MaxCancels>{cancels}</MaxCancels>"] if cancels else []
    parts += [f"<MaxDeliveries>{deliveries}</MaxDeliveries>"] if deliveries else []
    with TemporaryDirectory() as place:
        lab = QueueLab(Path(place), lab_xml(queue_xml(*parts)))
        model = Model(cancels, deliveries)
        held: dict[int, QueueMessage] = {}
        past: list[QueueMessage] = []
        count = 0
        for word, value in history:
            model.settle()
            leased = [number for number in model.order() if model.rows[number]["state"] == "leased"]
            chosen = leased[int(value) % len(leased)] if leased and isinstance(value, int) else None
            if word == "put":
                assert isinstance(value, list)
                lab.publish("orders", *(message(id=count + place, p=rank) for place, rank in enumerate(value)))
                for rank in value:
                    row = {"priority": rank if ranked else 0, "state": "ready", "until": 0}
                    model.rows[count] = row | {"cancels": 0, "deliveries": 0}
                    count += 1
            elif word == "lease":
                assert isinstance(value, int)
                ready = [number for number in model.order() if model.rows[number]["state"] == "ready"][:value]
                found = lab.lease(value)
                assert ids(found) == ready
                for one in found:
                    row = model.rows[id_of(one)]
                    row.update(state="leased", until=model.now + PERIOD, deliveries=int(row["deliveries"]) + 1)
                    held[id_of(one)] = one
                    past.append(one)
            elif word == "tick":
                assert isinstance(value, int)
                model.now += value
                lab.clock.tick(value)
            elif word == "late":
                assert isinstance(value, int)
                stale = [one for one in past if one is not held.get(id_of(one)) or id_of(one) not in leased]
                if stale:
                    assert lab.ack(stale[value % len(stale)]) == ["stale"]
            elif word == "requeue" and model.dead:
                assert isinstance(value, int)
                number = sorted(model.dead)[value % len(model.dead)]
                with lab.queue() as queue:
                    (name,) = [
                        one
                        for one in queue.list_messages()
                        if one.state == "dead" and one.txid == txid_of(past, number)
                    ]
                    assert queue.requeue([name.name]) == ["done"]
                row = {"priority": model.dead.pop(number), "state": "ready", "until": 0}
                model.rows[number] = row | {"cancels": 0, "deliveries": 0}
            elif word == "expire" and chosen is not None:
                assert lab.ack_bookmark(held[chosen].bookmark, expire=True) == "done"
                del model.rows[chosen]
            elif chosen is not None and word == "ack":
                assert lab.ack(held[chosen]) == ["done"]
                del model.rows[chosen]
            elif chosen is not None and word == "renew":
                with lab.queue() as queue:
                    assert queue.renew([build_handle(held[chosen])]) == ["done"]
                model.rows[chosen]["until"] = model.now + PERIOD
            elif chosen is not None and word == "cancel":
                lab.cancel(held[chosen], delay=DELAY)
                model.give_back(chosen, cancelled=True, delay=DELAY)
            elif chosen is not None and word == "untouched":
                lab.cancel(held[chosen], started=False)
                row = model.rows[chosen]
                row.update(state="ready", until=0, deliveries=int(row["deliveries"]) - 1)
            model.settle()
            expected = [(number, str(model.rows[number]["state"])) for number in model.order()]
            expected += [(number, "dead") for number in sorted(model.dead)]
            assert lab.states() == expected
        instance = lab.open()

        findings, _ = verify_queue_state(instance, list_configured_queues(instance)[0])
        assert findings == []
        if count:
            before = [number for number, _ in lab.states()]
            lab.state_file().unlink()
            assert [number for number, _ in lab.states()] == before


def txid_of(past: list[QueueMessage], number: int) -> int:
    """The txid of the message with an id, which was leased before."""
    return next(one.txid for one in past if id_of(one) == number)
