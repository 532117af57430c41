"""The cache of a view as version 1 wrote it (sow-view(5)): read byte for byte, and written alike.

``tests/formats/v1/view.sow`` was made by :func:`write_sample` of version 1 and never changes; ``view.json`` holds every
entry of its tables. Costs and digests of the definition are not compared with what is written today.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sowctl.engine.views.cache import read_state
from sowctl.engine.views.cache_tables import JOIN_TABLES, ROW_TABLES
from sowctl.store.check import check_store
from sowctl.store.env import Store
from tests.support.instances import Lab, config_xml, message, topic_xml

FORMATS = Path(__file__).parents[2] / "formats" / "v1"
GOLDEN = FORMATS / "view.sow"
VIEW = """
<View><Name>é/named</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[orders]./client = [clients]./id</Join></UnderlyingTopic>
<Projection><Field>[clients]./name AS /name</Field><Field>SUM([orders]./qty) AS /total</Field>
<Field>MIN([orders]./qty) AS /least</Field><Field>GROUP_CONCAT([orders]./note) AS /notes</Field></Projection>
<Grouping><Field>[clients]./name</Field></Grouping></View>
"""
XML = config_xml(topic_xml("orders", "<Expiration>1h</Expiration>") + topic_xml("clients") + VIEW, ("orders",))


def write_sample(place: Path) -> Path:
    """A cache that was made and caught up, from fixed inputs."""
    lab = Lab(place / "lab", XML)
    for number in range(9):
        lab.clock.tick(1)
        quantity: Any = [number, number * 0.1, "7", None][number % 4]
        lab.publish("orders", message(id=number, client=f"c{number % 4}", qty=quantity, note=f"é{number % 2}"))
    lab.publish("clients", *(message(id=f"c{number}", name=f"name {number // 2}") for number in range(3)))
    lab.query("é/named")
    lab.publish("orders", message(id=3, client="c1", qty=2**63))
    lab.publish("clients", message(id="c2", name="other"))
    lab.query("é/named")
    (path,) = (lab.directory / "sow" / "orders.json.sow-views").glob("*.sow")
    return path


def content(path: Path) -> dict[str, Any]:
    """State, records and tables of a cache, as plain values."""
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        state = read_state(snapshot)
        assert state is not None
        found: dict[str, Any] = {
            "state": {
                name: getattr(state, name) for name in ("version", "clock", "expires", "kept", "rows", "changed")
            },
            "positions": [[one.type, one.name, one.last_txid, one.behind] for one in state.positions],
            "records": {
                key.hex(): value.hex()
                for keys, values in snapshot.scan_records()
                for key, value in zip(keys, values, strict=True)
            },
        }
        for name in (*ROW_TABLES, *JOIN_TABLES):
            table = snapshot.open_table(name)
            assert table is not None
            found[name] = {key.hex(): value.hex() for key, value in table.walk()}
    return found


def test_the_cache_of_version_1_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "view.sow"
    shutil.copy(GOLDEN, path)
    assert content(path) == json.loads(GOLDEN.with_suffix(".json").read_text())
    assert not list(check_store(path))


def test_version_1_is_what_is_written(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    assert path.name == "%C3%A9%2Fnamed.json.sow"
    assert content(path) == json.loads(GOLDEN.with_suffix(".json").read_text())
