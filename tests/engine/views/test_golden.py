"""The cache of a view as version 3 wrote it (sow-view(5)): read byte for byte, and written alike.

``tests/formats/v3/view.*`` was made by :func:`write_sample` of version 3 and never changes: the cache, the columns of
its two sources, and in ``view.json`` what they hold. Costs and digests of the definition are not compared with what is
written today. ``tests/formats/v1/view.sow`` and ``v2`` are of earlier versions, which are made anew.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from sowctl.engine.views.cache import CHANGES_TABLE, read_state
from sowctl.engine.views.cache_build import find_column_path, name_columns
from sowctl.engine.views.column_file import ColumnFile
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.stored_columns import Changes
from sowctl.store.check import check_store
from sowctl.store.env import Store
from tests.support.instances import Lab, config_xml, message, topic_xml

FORMATS = Path(__file__).parents[2] / "formats"
GOLDEN = FORMATS / "v3" / "view.sow"
VIEW = """
<View><Name>é/named</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[orders]./client = [clients]./id</Join></UnderlyingTopic>
<Projection><Field>[clients]./name AS /name</Field><Field>SUM([orders]./qty) AS /total</Field>
<Field>MIN([orders]./qty) AS /least</Field><Field>GROUP_CONCAT([orders]./note) AS /notes</Field>
<Field>MAX([orders]./price) AS /dearest</Field><Field>MAX([orders]./fee) AS /fee</Field></Projection>
<Grouping><Field>[clients]./name</Field></Grouping></View>
"""
XML = config_xml(topic_xml("orders", "<Expiration>1h</Expiration>") + topic_xml("clients") + VIEW, ("orders",))


def write_sample(place: Path) -> Path:
    """A cache that was made and caught up, from fixed inputs."""
    lab = Lab(place / "lab", XML)
    for number in range(9):
        lab.clock.tick(1)
        quantity: Any = [number, number * 0.1, "7", None][number % 4]
        price, fee = number + 0.25, [number, number * 0.5, None][number % 3]
        client, note = f"c{number % 4}", f"é{number % 2}"
        order = message(id=number, client=client, qty=quantity, note=note, price=price, fee=fee)
        # A text that the number does not have by itself.
        lab.publish("orders", order.replace(".25", ".250"))
    lab.publish("clients", *(message(id=f"c{number}", name=f"name {number // 2}") for number in range(3)))
    with patch.multiple(VIEW_LIMITS, min_column_records=0, max_stale_divisor=0):
        lab.query("é/named")
        lab.publish("orders", message(id=3, client="c1", qty=2**63))
        lab.publish("clients", message(id="c2", name="other"))
        lab.query("é/named")
    (path,) = (lab.directory / "sow" / "orders.json.sow-views").glob("*.sow")
    return path


def plain(value: Any) -> Any:
    """A part of columns, or changes, as plain values."""
    return value.tolist() if isinstance(value, np.ndarray) else [repr(one) for one in value.read_values()]


def part_content(part: Any) -> dict[str, Any]:
    return {
        "keys": plain(part.keys), "txids": plain(part.txids), "times": plain(part.times),
        "columns": [[column.kind.name, plain(column)] for column in part.columns],
        "texts": [[column.kind.name, plain(column)] for column in part.texts],
    }  # fmt: skip


def content(path: Path, columns: list[Path]) -> dict[str, Any]:
    """State, messages, columns and changes of a cache, as plain values."""
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        state, table = read_state(snapshot), snapshot.open_table(CHANGES_TABLE)
        assert state is not None
        assert table is not None
        found: dict[str, Any] = {
            "state": {name: getattr(state, name) for name in ("version", "clock", "expires", "changed", "groups")},
            "positions": [[one.type, one.name, one.last_txid, one.behind] for one in state.positions],
            "messages": {
                key.hex(): value.hex()
                for keys, values in snapshot.scan_records()
                for key, value in zip(keys, values, strict=True)
            },
            "columns": [],
            "changes": {},
        }
        places = columns or [find_column_path(path, *one) for one in enumerate(state.columns)]
        for one, place in zip(enumerate(state.columns), places, strict=True):
            file = ColumnFile.open(place, name_columns(*one))
            rows = [[one.first, *(None if some is None else plain(some) for some in file.read_rows(one))]
                    for one in file.index.rows]  # fmt: skip
            parts = [part_content(file.read_part(number)) for number in range(len(file.index.parts))]
            found["columns"].append({"parts": parts, "rows": rows})
        for key, value in table.walk():
            some = Changes.decode(value, path)
            found["changes"][key.hex()] = {
                "part": part_content(some.part), "hidden": plain(some.hidden), "roots": plain(some.roots),
                "groups": plain(some.groups),
            }  # fmt: skip
    return found


def test_the_cache_of_version_3_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "view.sow"
    shutil.copy(GOLDEN, path)
    columns = [GOLDEN.with_name(f"view.columns-{number}") for number in range(2)]
    assert content(path, columns) == json.loads(GOLDEN.with_suffix(".json").read_text())
    assert not list(check_store(path))


def test_version_3_is_what_is_written(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    assert path.name == "%C3%A9%2Fnamed.json.sow"
    assert content(path, []) == json.loads(GOLDEN.with_suffix(".json").read_text())


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_cache_of_an_earlier_version_is_made_anew(tmp_path: Path, version: str) -> None:
    path = write_sample(tmp_path)
    lab = Lab(tmp_path / "lab", XML)
    wanted = lab.query("é/named")
    shutil.copy(FORMATS / version / "view.sow", path)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert read_state(snapshot) is None
    assert lab.query("é/named") == wanted
    assert lab.notes == []


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        made = write_sample(Path(directory))
        with Store.open(made, write=False) as opened, opened.open_snapshot() as shown:
            written = read_state(shown)
        assert written is not None
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.with_suffix(".json").write_text(json.dumps(content(made, []), indent=1) + "\n")
        shutil.copy(made, GOLDEN)
        for number, identity in enumerate(written.columns):
            shutil.copy(find_column_path(made, number, identity), GOLDEN.with_name(f"view.columns-{number}"))
