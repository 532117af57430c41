"""Origin of each field: against a backward search through all versions, and in single cases."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.options import PublishOptions
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.history import compare_versions, read_key_versions
from sowctl.engine.verbs.inspect.blame import MAX_MEMBERS, Blame, find_origins
from sowctl.errors import InputError, UsageError
from sowctl.values.differences import apply_changes, format_path, is_same, iterate_leaves, parse_view
from tests.support.examples import examples
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml, verified


def blamed(lab: Lab, topic: str, text: str = "1", at: int | None = None, max_members: int = MAX_MEMBERS) -> Blame:
    instance = lab.open()
    return find_origins(
        instance, resolve_targets(instance, topic, derived=True)[0], (text,), at=at, max_members=max_members
    )[0]


def origins(found: Blame) -> dict[str, int]:
    return {format_path(one.path): one.version.txid for one in found.fields}


def put(lab: Lab, topic: str, text: str, **options: object) -> None:
    lab.open().topic(topic).publish([text.encode()], PublishOptions(**options))  # type: ignore[arg-type]


VALUE = st.sampled_from([None, 1, 2, "x", [1], [], {}, {"p": 1}, {"p": 2, "q": 1}, [{"r": 1}], [{"r": 1}, {"r": 2}]])
STEP = st.tuples(
    st.sampled_from(["publish", "publish", "delta", "delta", "delete", "clock"]),
    st.dictionaries(st.sampled_from("ab"), VALUE),
    st.sampled_from([None, "oms", "desk"]),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, min_size=1, max_size=10))
def test_each_field_has_its_value_since_the_entry_that_is_named(steps: list) -> None:  # type: ignore[type-arg]
    xml = config_xml(topic_xml("t", "<Expiration>1h</Expiration>"), ("t",))
    with tempfile.TemporaryDirectory() as place, verified(Lab(Path(place) / "lab", xml)) as lab:
        put(lab, "t", message(id=1))
        for verb, body, client in steps:
            if verb == "clock":
                lab.clock.tick(1801)
            elif verb == "delete":
                lab.open().topic("t").delete(filter="/id = 1")
            else:
                put(lab, "t", message(id=1, **body), delta=verb == "delta", client=client)
        instance = lab.open()
        batch, _ = read_key_versions(instance, resolve_targets(instance, "t")[0], ("1",), journal=True)
        found = blamed(lab, "t")
        current = lab.query("t")
        assert bool(current) is (found.gone is None)
        if current:
            assert {one.path: one.value for one in found.fields} == dict(
                iterate_leaves(parse_view(current[0].encode()))
            )
        # Backwards from the present: a field keeps its origin while the previous version has the same value.
        life = []
        for version in reversed(batch.records):
            if version.deleted:
                break
            life.append((version, dict(iterate_leaves(parse_view(version.payload)))))
            if version.inserted:
                break
        for one in found.fields:
            since = life[0][0]
            for version, held in life:
                if one.path not in held or not is_same(held[one.path], one.value):
                    break
                since = version
            assert one.version is not None and one.version.txid == since.txid, one
            assert one.version.client == since.client and not one.earlier
        # Applying the changes of history --diff to a version gives the next one.
        tree: object = None
        for change in compare_versions(batch):
            payload = change.version.payload
            if change.kind == "changed":
                tree = apply_changes(change.fields, tree)
            elif change.kind == "added":
                tree = parse_view(payload)
            assert change.kind == "removed" or is_same(tree, parse_view(payload))


def test_nested_fields_have_origins_of_their_own(lab: Lab) -> None:
    put(lab, "t", '{"id":1,"o":{"a":1,"b":1},"legs":[{"q":1},{"q":2}],"tags":["x"]}', client="oms")
    put(lab, "t", '{"id":1,"o":{"b":2}}', delta=True, client="desk")
    put(lab, "t", '{"id":1,"o":{"a":1,"b":2},"legs":[{"q":1},{"q":3},{"q":4}],"tags":["x","y"]}')
    found = blamed(lab, "t")
    assert origins(found) == {
        "/id": 1,
        "/o/a": 1,
        "/o/b": 2,
        "/legs[0]/q": 1,
        "/legs[1]/q": 3,
        "/legs[2]/q": 3,
        "/tags": 3,
    }
    assert [one.version.client for one in found.fields][:3] == ["oms", "oms", "desk"]


def test_a_deletion_and_the_end_of_a_lifetime_start_over(lab: Lab) -> None:
    put(lab, "t", message(id=1, a=1))
    lab.open().topic("t").delete(filter="/id = 1")
    assert blamed(lab, "t").gone == "deleted" and not blamed(lab, "t").fields
    put(lab, "t", message(id=1, a=1))
    assert origins(blamed(lab, "t")) == {"/id": 3, "/a": 3}
    put(lab, "quotes", message(id=1, a=1))
    lab.clock.tick(40)
    assert blamed(lab, "quotes").gone == "expired"
    put(lab, "quotes", message(id=1, a=1))
    assert origins(blamed(lab, "quotes")) == {"/id": 5, "/a": 5}


def test_as_of_an_instant_later_entries_do_not_count(lab: Lab) -> None:
    put(lab, "t", message(id=1, a=1))
    lab.clock.tick(10)
    put(lab, "t", message(id=1, a=2))
    assert origins(blamed(lab, "t")) == {"/id": 1, "/a": 2}
    assert origins(blamed(lab, "t", at=START)) == {"/id": 1, "/a": 1}
    assert blamed(lab, "t", at=START - 1).versions == 0


def test_retained_versions_answer_where_no_journal_does(make_lab) -> None:  # type: ignore[no-untyped-def]
    past = "<History><Window>1h</Window><Granularity>10s</Granularity></History>"
    lab = make_lab(config_xml(topic_xml("h", past) + topic_xml("plain"), ()))
    for second, value in ((0, 1), (4, 2), (8, 3), (30, 3)):
        lab.clock.at = START + second * SECOND
        put(lab, "h", message(id=1, a=value, b=0))
    found = blamed(lab, "h")
    # The versions of seconds 4 and 8 were dropped: later values may have existed in them already.
    assert {format_path(one.path): (one.version.txid, one.earlier) for one in found.fields} == {
        "/id": (1, True),
        "/a": (4, True),
        "/b": (1, True),
    }
    put(lab, "plain", message(id=1))
    with pytest.raises(UsageError, match="History"):
        blamed(lab, "plain")


def test_what_stood_in_journals_that_are_gone_may_be_older(lab: Lab) -> None:
    lab.journal_size = 4096
    put(lab, "t", message(id=1, a=1, b=1))
    for number in range(60):
        put(lab, "t", message(id=2, n=number, text="x" * 100))
    put(lab, "t", message(id=1, a=1, b=2))
    put(lab, "t", message(id=1, a=1, b=3))
    lab.journals()[0].unlink()
    found = blamed(lab, "t")
    assert [(format_path(one.path), one.version.txid, one.earlier) for one in found.fields] == [
        ("/id", 62, True),
        ("/a", 62, True),
        ("/b", 63, False),
    ]
    instance = lab.open()
    batch, _ = read_key_versions(instance, resolve_targets(instance, "t")[0], ("1",), journal=True)
    assert [change.kind for change in compare_versions(batch)] == ["known", "changed"]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ({"a": 1, "b": [1, 2, 3, 4, 5, 6, 7, 8]}, 4),
        ({"a": 'x":1,{"y"', "b": "{:}"}, 4),
        ({"a": {"b": {"c": 1}}}, 7),
        ({"a": [{}, {}, {}, {}]}, 7),
    ],
    ids=["arrays", "texts", "nested", "items"],
)
def test_a_record_with_too_many_members_is_refused(lab: Lab, body: dict[str, object], count: int) -> None:
    """Members and objects of all depths count, as does the message itself; array items and texts do not."""
    put(lab, "t", json.dumps({"id": 1, **body}))
    assert blamed(lab, "t", max_members=count).fields
    with pytest.raises(InputError) as caught:
        blamed(lab, "t", max_members=count - 1)
    assert (caught.value.code, caught.value.place) == ("SOW-QRY-025", "t")
    assert f" {count - 1} members" in str(caught.value)
    # The fields of a deleted record are not compared.
    lab.open().topic("t").delete(filter="/id = 1")
    assert blamed(lab, "t", max_members=1).gone == "deleted"


def test_a_message_beyond_the_limit_is_not_taken_apart(lab: Lab) -> None:
    """A record with 200,000 members is not decoded; decoded, it takes about 50 MB."""
    put(lab, "t", json.dumps({"id": 1, **{f"k{number}": number for number in range(200_000)}}, separators=(",", ":")))
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            blamed(lab, "t", max_members=100_000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.code == "SOW-QRY-025"
    assert peak_bytes < 25_000_000


def test_a_view_has_no_entries() -> None:
    view = (
        "<View><Name>v</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic><Projection>"
        "<Field>/id AS /id</Field></Projection><Grouping><Field>/id</Field></Grouping></View>"
    )
    with tempfile.TemporaryDirectory() as place:
        lab = Lab(Path(place) / "lab", config_xml(topic_xml("t") + view, ("t",)))
        put(lab, "t", json.dumps({"id": 1}))
        with pytest.raises(UsageError, match="'v'") as caught:
            blamed(lab, "v")
        assert caught.value.code == "SOW-QRY-023"
