"""A law of views: refreshed from their columns after each of random changes, they show what a plain model shows.

The model holds the records of two topics in dictionaries, joins and groups them in loops, and knows nothing of columns.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.views import cache_refresh
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.errors import MissingError
from tests.support.examples import examples
from tests.support.instances import Lab, config_xml, topic_xml

FIELDS = (
    "[clients]./name AS /name", "COUNT([orders]./id) AS /n", "SUM([orders]./v) AS /sum", "MIN([orders]./v) AS /least",
    "MAX([orders]./v) AS /most", "COUNT_DISTINCT([orders]./v) AS /kinds",
)  # fmt: skip
VIEW = f"""<View><Name>named</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[orders]./client = [clients]./code</Join></UnderlyingTopic>
<Projection>{"".join(f"<Field>{field}</Field>" for field in FIELDS)}</Projection>
<Grouping><Field>[clients]./name</Field></Grouping></View>"""
XML = config_xml(topic_xml("orders") + topic_xml("clients") + VIEW, ("orders",))
Model = dict[str, dict[int, dict[str, Any]]]
CODE = st.sampled_from(["a", "b", "c", "d"])
ORDER = st.fixed_dictionaries({"id": st.integers(1, 40), "client": CODE}, optional={"v": st.integers(-5, 5)})
# Several clients may have one code, so that an order makes several rows.
CLIENT = st.fixed_dictionaries({"id": st.integers(1, 6), "code": CODE}, optional={"name": st.sampled_from("xyz")})
STEP = st.one_of(
    st.tuples(st.just("orders"), st.lists(ORDER, min_size=1, max_size=4)),
    st.tuples(st.just("clients"), st.lists(CLIENT, min_size=1, max_size=2)),
    st.tuples(st.just("delete orders"), st.integers(1, 40)),
    st.tuples(st.just("delete clients"), st.integers(1, 6)),
)


def change(lab: Lab, model: Model, step: tuple[str, Any]) -> None:
    what, value = step
    if not what.startswith("delete "):
        lab.open().topic(what).publish([json.dumps(body).encode() for body in value])
        model[what].update({body["id"]: body for body in value})
        return
    name = what.removeprefix("delete ")
    with suppress(MissingError):
        lab.open().topic(name).delete(filter=f"/id = {value}")
    model[name].pop(value, None)


def compute(model: Model) -> list[dict[str, Any]]:
    groups: dict[str | None, list[int | None]] = {}
    for order in model["orders"].values():
        partners = [client for client in model["clients"].values() if client["code"] == order["client"]]
        for partner in partners or [{}]:
            groups.setdefault(partner.get("name"), []).append(order.get("v"))
    rows = []
    for name, values in groups.items():
        inputs = [value for value in values if value is not None]
        some = {"sum": sum(inputs), "least": min(inputs), "most": max(inputs)} if inputs else {}
        rows.append({"name": name, "n": len(values), "sum": None, "least": None, "most": None} | some)
        rows[-1]["kinds"] = len(set(inputs))
    return sorted(rows, key=lambda row: row["name"] or "")


def show(lab: Lab, *, fresh: bool = False) -> list[dict[str, Any]]:
    rows = [json.loads(record.payload) for record in lab.open().topic("named").query(fresh=fresh).records()]
    return sorted(rows, key=lambda row: row["name"] or "")


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    orders=st.lists(ORDER, min_size=10, max_size=40, unique_by=lambda body: body["id"]),
    clients=st.lists(CLIENT, min_size=1, max_size=5),
    steps=st.lists(STEP, min_size=3, max_size=10),
    affected=st.sampled_from([0, 2, 1 << 60]),
    kept=st.sampled_from([0, 3, 1 << 60]),
    part=st.sampled_from([3, 1 << 16]),
)
def test_a_refreshed_view_shows_what_a_model_shows(
    orders: list[dict[str, Any]],
    clients: list[dict[str, Any]],
    steps: list[tuple[str, Any]],
    affected: int,
    kept: int,
    part: int,
) -> None:
    limits = {"min_column_records": 0, "max_changed_divisor": 0, "max_stale_divisor": 0, "max_kept_divisor": 1 << 60}
    with (
        tempfile.TemporaryDirectory() as place,
        patch.multiple(
            VIEW_LIMITS, **limits, max_affected_divisor=affected, min_kept_changes=kept, column_part_records=part
        ),
    ):
        lab, model = Lab(Path(place) / "lab", XML), {"orders": {}, "clients": {}}
        change(lab, model, ("orders", orders))
        change(lab, model, ("clients", clients))
        assert show(lab) == compute(model)
        for step in steps:
            change(lab, model, step)
            # Never computed anew.
            with patch.object(cache_refresh, "build_store", side_effect=AssertionError):
                assert show(lab) == compute(model), step
        assert show(lab, fresh=True) == compute(model)
