"""A program on the Python API as its users write it: every example of sowctl-python(7), line by line.

mypy checks it with ``--strict`` as it would a user's program, a test runs it, and another one compares the page with
this file.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import sowctl


def first() -> None:
    """The example at the beginning of the page."""
    with sowctl.open("sowctl.xml") as instance:
        orders = instance.topic("orders")
        orders.publish([{"orderId": 1, "symbol": "IBM", "qty": 200}])
        large = orders.query("/qty > 100", order_by="/qty DESC")
        for record in large.records():
            print(record.sow_key, record.payload)


def creating() -> None:
    """New instances."""
    with sowctl.create(
        "fixtures",
        topics={
            "trades": "/tradeId",
            "fills": ["/tradeId", "/line"],
            "sessions": {"key": "/id", "expiration": "10m"},
        },
    ) as created:
        created.topic("trades").publish([{"tradeId": 1, "qty": 5}])


def publishing(instance: sowctl.InstanceHandle) -> None:
    """PUBLISHING."""
    orders = instance.topic("orders")
    now = datetime.now(UTC)
    report = orders.publish(
        [b'{"orderId":2}', '{"orderId":3}', {"orderId": 4, "at": now}],
    )
    print(report.inserted, report.last_txid)

    filled = {"orderId": 2, "status": "filled"}
    orders.publish([filled], delta=True, update_only=True)
    orders.publish([{"orderId": 5}], expiration=timedelta(minutes=5))
    more = ({"orderId": number} for number in range(6, 9))
    orders.publish(more, on_error="skip", max_errors=10)

    golden = [{"orderId": 20, "qty": 100}]
    print(orders.publish(golden, skip_unchanged=True).unchanged)
    changes = orders.publish(golden, replace_all=True, dry_run=True).first_changes
    print([(one.change, one.key) for one in changes])

    instance.publish("events", [{"what": "started"}])


def querying(topic: sowctl.TopicHandle) -> None:
    """QUERIES."""
    result = topic.query("/symbol = 'IBM'", order_by="/qty DESC", limit=10)
    print(len(result.to_dicts()), topic.count("/qty > 100"))

    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    print(topic.count(at=an_hour_ago))
    print(topic.query(at="-15m").to_dicts())

    for record in topic.get("1", "2"):
        print(record.published_at, record.txid)
    for version in topic.history("2", journal=True):
        print(version.published_at, version.valid_until, version.deleted)

    print(topic.explain("/symbol = 'IBM'").access)

    report = topic.schema(sample="10%")
    for facts in report.paths:
        print(facts.path, facts.types, facts.missing)
    print(report.to_json_schema())

    written = topic.export("large.csv.gz", "/qty > 100", overwrite=True)
    print(written.records, written.file_bytes)

    found = topic.changes(since="4")
    for row in found.records():
        print(row.change_type, row.reason, row.sow_key, row.payload)
    print("next time from", found.bookmark)


def handing_on(instance: sowctl.InstanceHandle) -> None:
    """QUERIES, of all topics."""
    print([one.path for one in instance.export("shop.sqlite", overwrite=True)])
    print([one.records for one in instance.snapshot("stores", at=datetime.now(UTC))])
    print(instance.digest(payloads=True).digest)


def asking_sql(instance: sowctl.InstanceHandle) -> None:
    """SQL, also as messages."""
    orders = instance.topic("orders")
    orders.publish(instance.sql("SELECT 10 AS orderId, 'IBM' AS symbol"))

    report = orders.publish_file("fills.csv", types={"qty": "integer"})
    print([(column.name, column.type) for column in report.inputs[0].columns])

    orders.publish_file("fills.csv", sowctl.PublishOptions(on_error="skip"))

    rows = instance.sql("SELECT symbol, sum(qty) AS total FROM orders GROUP BY ALL")
    for row in rows.to_dicts():
        print(row["symbol"], row["total"])


def arrow(topic: sowctl.TopicHandle) -> None:
    """ARROW."""
    table = topic.query("/qty > 100").to_arrow(meta=True)
    print(table.schema)

    frame = topic.query().to_pandas()
    print(frame.describe())


def comparing(topic: sowctl.TopicHandle) -> None:
    """COMPARING."""
    with topic.diff(at="-1h", ignored=["/time"]) as differences:
        for change in differences:
            names = [field.name for field in change.fields]
            print(change.kind, change.key, names)
    print(differences.counts.different)
    (record,) = topic.blame("2")
    for origin in record.fields:
        version = origin.version
        print(origin.name, origin.value, version.published_at, version.client)


def deleting(topic: sowctl.TopicHandle) -> None:
    """DELETING AND MORE."""
    print(topic.delete(filter="/qty > 1000").deleted)
    print(topic.delete(data=[{"orderId": 3}]).deleted)
    print(topic.info().records, topic.digest().digest)


def following(topic: sowctl.TopicHandle) -> None:
    """SUBSCRIPTIONS."""
    with topic.subscribe("/qty > 100", oof=True, until_now=True) as events:
        for event in events:
            print(event.command, event.sow_key, event.data)


def following_async(topic: sowctl.TopicHandle) -> None:
    """SUBSCRIPTIONS, the second example."""

    async def watch() -> None:
        async with topic.subscribe(lasting="100ms") as subscription:
            async for event in subscription:
                print(event.command, event.data)

    asyncio.run(watch())


def working(instance: sowctl.InstanceHandle) -> None:
    """QUEUES."""
    with instance.queue("work") as queue, queue.lease(10) as messages:
        for message in messages:
            print(message.payload)


def failing(instance: sowctl.InstanceHandle) -> None:
    """ERRORS."""
    try:
        instance.topic("order")
    except sowctl.MissingError as error:
        print(error.code, error.hint)
    except sowctl.SowError as error:
        raise SystemExit(error.exit_status) from error
