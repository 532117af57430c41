"""The data of ``sowctl demo``: one trading morning of orders, customers and quotes, from a fixed seed.

Every message has its time in ``time``, in order: published with ``--timestamp-field /time``, they give stores whose
past can be queried. The same program writes the same bytes. ``samples/demo`` holds the output of :func:`write_demo`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CONFIG_TEXT = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- The instance that "sowctl demo" builds: one trading morning. -->
<AMPSConfig>
  <Name>demo</Name>
  <SOW>
    <Topic>
      <Name>orders</Name>
      <MessageType>json</MessageType>
      <Key>/orderId</Key>
      <FileName>sow/%n.sow</FileName>
      <HashIndex>
        <Key>/customerId</Key>
      </HashIndex>
    </Topic>
    <Topic>
      <Name>customers</Name>
      <MessageType>json</MessageType>
      <Key>/customerId</Key>
      <FileName>sow/%n.sow</FileName>
      <!-- Every change of the last ten years stays queryable, at most one version a minute. -->
      <History>
        <Window>520w</Window>
        <Granularity>1m</Granularity>
      </History>
    </Topic>
    <Topic>
      <Name>quotes</Name>
      <MessageType>json</MessageType>
      <Key>/symbol</Key>
      <FileName>sow/%n.sow</FileName>
      <Expiration>10m</Expiration>
    </Topic>
    <!-- What the customers of each region have traded, computed from both topics. -->
    <View>
      <Name>totals</Name>
      <MessageType>json</MessageType>
      <UnderlyingTopic>
        <Join>[orders]./customerId = [customers]./customerId</Join>
      </UnderlyingTopic>
      <Projection>
        <Field>[customers]./region AS /region</Field>
        <Field>COUNT([orders]./orderId) AS /orders</Field>
        <Field>SUM([orders]./filled * [orders]./price) AS /value</Field>
      </Projection>
      <Grouping>
        <Field>[customers]./region</Field>
      </Grouping>
    </View>
    <!-- Quotes for people: no symbol changes more often than every ten seconds. -->
    <ConflatedTopic>
      <Name>slow-quotes</Name>
      <MessageType>json</MessageType>
      <UnderlyingTopic>quotes</UnderlyingTopic>
      <Interval>10s</Interval>
    </ConflatedTopic>
    <!-- Every large new order is work for one of the workers of "sowctl queue run work". -->
    <Queue>
      <Name>work</Name>
      <MessageType>json</MessageType>
      <UnderlyingTopic>orders</UnderlyingTopic>
      <Filter>/status = 'new' AND /qty >= 4500</Filter>
      <LeasePeriod>1m</LeasePeriod>
      <MaxDeliveries>5</MaxDeliveries>
    </Queue>
  </SOW>
  <TransactionLog>
    <JournalDirectory>journal</JournalDirectory>
    <!-- Here "sowctl journal archive" puts files that do not grow any more. -->
    <JournalArchiveDirectory>archive</JournalArchiveDirectory>
    <!-- sowctl: ignore B009 because one morning fits into a small file; a server wants 250MB to 2GB -->
    <JournalSize>10MB</JournalSize>
    <FlushInterval>100ms</FlushInterval>
    <Topic>
      <Name>orders</Name>
      <MessageType>json</MessageType>
    </Topic>
    <Topic>
      <Name>customers</Name>
      <MessageType>json</MessageType>
    </Topic>
    <Topic>
      <Name>quotes</Name>
      <MessageType>json</MessageType>
    </Topic>
    <!-- Orders that no worker could do; a topic without a SOW. -->
    <Topic>
      <Name>failed</Name>
      <MessageType>json</MessageType>
    </Topic>
  </TransactionLog>
  <Actions>
    <!-- What a server does every night; without one a line of cron calls "sowctl upkeep run". -->
    <Action>
      <On>
        <Module>amps-action-on-schedule</Module>
        <Options>
          <Every>03:00</Every>
          <Name>old journals</Name>
        </Options>
      </On>
      <Do>
        <Module>amps-action-do-remove-journal</Module>
        <Options>
          <Age>521w</Age>
        </Options>
      </Do>
    </Action>
  </Actions>
</AMPSConfig>
"""
START_TIME = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
SYMBOL_PRICES = {
    "IBM": 187.0,
    "AAPL": 243.5,
    "MSFT": 421.0,
    "ORCL": 168.2,
    "SAP": 241.9,
    "INTC": 20.4,
    "CSCO": 59.1,
    "NVDA": 138.3,
}
REGIONS = ("EMEA", "AMER", "APAC")
REGION_CITIES = {
    "EMEA": ("London", "Zürich", "Łódź", "Paris"),
    "AMER": ("New York", "São Paulo"),
    "APAC": ("Tokyo", "Sydney"),
}
FIRST_NAMES = ("Ada", "Bela", "Chloé", "Dmitri", "Emeka", "Freya", "Goro", "Hana", "Ines", "Jens")
LAST_NAMES = ("Adler", "Brandt", "Costa", "Duval", "Ekberg", "Fujita", "Gómez", "Hart", "Ivanov", "Jansen")


def format_timestamp(at: datetime) -> str:
    """The time of a message: ISO-8601 with milliseconds."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def generate_customers(rng: random.Random) -> Iterator[dict[str, Any]]:
    """150 customers before the opening; then 350 changes of credit limits over the morning."""
    known: list[dict[str, Any]] = []
    at = START_TIME - timedelta(hours=1)
    for number in range(1, 151):
        region = rng.choice(REGIONS)
        at += timedelta(milliseconds=rng.randint(200, 4000))
        known.append(
            {
                "customerId": f"C{number:04d}",
                "name": f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}",
                "region": region,
                "address": {"city": rng.choice(REGION_CITIES[region]), "postalCode": f"{rng.randint(1000, 99999):05d}"},
                "creditLimit": rng.randrange(10, 500) * 1000,
                "tags": rng.sample(["vip", "algo", "retail", "new", "watch"], rng.randint(0, 2)),
            }
        )
        yield {**known[-1], "time": format_timestamp(at)}
    at = START_TIME
    for _ in range(350):
        at += timedelta(milliseconds=rng.randint(5_000, 50_000))
        customer = rng.choice(known)
        customer["creditLimit"] = max(0, customer["creditLimit"] + rng.randrange(-20, 30) * 1000)
        yield {**customer, "time": format_timestamp(at)}


def generate_orders(rng: random.Random) -> Iterator[dict[str, Any]]:
    """About 900 orders that are entered, partly filled, filled or cancelled: some 2,400 messages."""
    events: list[tuple[datetime, int, dict[str, Any]]] = []
    at = START_TIME
    for number in range(10_001, 10_901):
        at += timedelta(milliseconds=rng.randint(500, 22_000))
        symbol = rng.choice(list(SYMBOL_PRICES))
        order: dict[str, Any] = {
            "orderId": number,
            "customerId": f"C{rng.randint(1, 150):04d}",
            "symbol": symbol,
            "side": rng.choice(("buy", "sell")),
            "qty": rng.randrange(1, 50) * 100,
            "filled": 0,
            "price": round(SYMBOL_PRICES[symbol] * rng.uniform(0.97, 1.03), 2),
            "status": "new",
        }
        moment, step = at, 0
        events.append((moment, step, dict(order)))
        for _ in range(rng.randint(0, 3)):
            moment += timedelta(milliseconds=rng.randint(50, 900_000))
            step += 1
            order["filled"] = min(order["qty"], order["filled"] + rng.randrange(1, 20) * 100)
            order["status"] = (
                "filled" if order["filled"] == order["qty"] else rng.choice(("partial", "partial", "cancelled"))
            )
            events.append((moment, step, dict(order)))
            if order["status"] != "partial":
                break
    events.sort(key=lambda event: (event[0], event[2]["orderId"], event[1]))
    for moment, _, order in events:
        yield {**order, "time": format_timestamp(moment)}


def generate_quotes(rng: random.Random) -> Iterator[dict[str, Any]]:
    """2,000 quotes of eight symbols; a quote expires after ten minutes."""
    prices = dict(SYMBOL_PRICES)
    at = START_TIME
    for _ in range(2000):
        at += timedelta(milliseconds=rng.randint(100, 9_000))
        symbol = (
            rng.choice(list(SYMBOL_PRICES)[:7])
            if at < START_TIME + timedelta(hours=2)
            else rng.choice(list(SYMBOL_PRICES)[:5])
        )
        prices[symbol] = round(prices[symbol] * rng.uniform(0.998, 1.002), 2)
        spread = round(rng.uniform(0.01, 0.09), 2)
        yield {
            "symbol": symbol,
            "bid": prices[symbol],
            "ask": round(prices[symbol] + spread, 2),
            "size": rng.randrange(1, 40) * 100,
            "time": format_timestamp(at),
        }


CLIENTS = {"orders": "order-gateway", "customers": "crm", "quotes": "market-data"}
"""The recorded client of each topic."""
TOPIC_GENERATORS: dict[str, Callable[[random.Random], Iterator[dict[str, Any]]]] = {
    "customers": generate_customers,
    "orders": generate_orders,
    "quotes": generate_quotes,
}


def iterate_messages(topic: str) -> Iterator[bytes]:
    """The messages of one topic, one JSON object each."""
    seed = 20260105 + tuple(TOPIC_GENERATORS).index(topic)
    for message in TOPIC_GENERATORS[topic](random.Random(seed)):
        yield json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def write_demo(directory: Path) -> None:
    """Write ``sowctl.xml`` and one ``.ndjson`` file per topic. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sowctl.xml").write_text(CONFIG_TEXT, encoding="utf-8")
    for topic in TOPIC_GENERATORS:
        with (directory / f"{topic}.ndjson").open("wb") as out:
            out.writelines(message + b"\n" for message in iterate_messages(topic))
