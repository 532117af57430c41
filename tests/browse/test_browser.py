"""The browser driven by keys, on a terminal of Textual's own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from sowctl.browse import records
from sowctl.browse.app import Browser
from sowctl.browse.instance_reader import InstanceReader, PageRequest, Stop, Stopped, format_change, format_message
from sowctl.browse.instance_reader import PageOfRecords as Records
from sowctl.engine.instance import Instance
from sowctl.engine.search.unknown_fields import UNKNOWN_FIELD_WORDS
from sowctl.values.differences import MISSING
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.queues import QueueLab, lab_xml, queue_xml

Keys = Callable[[Pilot[None], Browser], Awaitable[None]]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """250 orders of which one was changed, and a topic whose text looks like markup."""
    xml = config_xml(topic_xml("orders") + topic_xml("odd"), ("orders",))
    lab = Lab(tmp_path_factory.mktemp("browse"), xml)
    lab.publish("orders", *[message(id=n, price=n * 2, side="buy" if n % 2 else "sell") for n in range(1, 251)])
    lab.clock.tick(60)
    lab.publish("orders", message(id=7, price=99.5, side="buy", note={"by": "ops"}), client="desk")
    lab.publish("odd", message(id="[red]x[/red]", text="\x1b[31m[/nope]"))
    return lab


def drive(instance: Instance, keys: Keys, *, size: tuple[int, int] = (120, 30), target: str | None = None) -> None:
    """Run the browser, press keys, leave it."""

    async def run() -> None:
        browser = Browser(instance, target, "orders")
        async with browser.run_test(size=size) as pilot:
            await settled(pilot)
            await keys(pilot, browser)

    asyncio.run(run())


async def settled(pilot: Pilot[None], until: Callable[[], bool] = lambda: True) -> None:
    """Wait until nothing is asked any more, and something has come true."""
    for _ in range(200):
        await pilot.pause(0.02)
        busy = [worker for worker in pilot.app.workers if worker.group != "journal" and not worker.is_finished]
        if not busy and until():
            await pilot.pause()
            return
    raise AssertionError(screen(pilot))


def screen(pilot: Pilot[None]) -> str:
    """What a person sees."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def rows(browser: Browser) -> list[list[str]]:
    """The cells of the table that is shown."""
    table: DataTable[Any] = browser.screen.query_one(DataTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


def said(browser: Browser) -> str:
    return str(browser.screen.query_one("#said", Static).content)


def test_from_the_topics_to_what_changed_a_record(lab: Lab) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        assert [row[:5] for row in rows(browser)] == [
            ["orders", "json", "Topic", "ok", "250"],
            ["odd", "json", "Topic", "ok", "1"],
        ]
        await pilot.press("enter")
        await settled(pilot, lambda: "of 250" in said(browser))
        assert len(rows(browser)) == 100
        # A filter that is not finished complains with its place, and the records stay.
        await pilot.press("slash", *"/id <")
        await settled(pilot, lambda: "SOW-EXP-007" in screen(pilot))
        assert "/id <" in screen(pilot)
        assert "     ^" in screen(pilot)
        assert len(rows(browser)) == 100
        await pilot.press(*" 10", "enter")
        await settled(pilot, lambda: "of 9;" in said(browser))
        assert "SOW-EXP" not in screen(pilot)
        # Sorted by the column under the cursor, up, down, and not at all.
        assert pilot.app.focused is browser.screen.query_one(DataTable)
        ids = {row[0] for row in rows(browser)}
        assert ids == set("123456789")
        await pilot.press("s")
        await settled(pilot, lambda: [row[0] for row in rows(browser)] == list("123456789"))
        await pilot.press("s")
        await settled(pilot, lambda: [row[0] for row in rows(browser)] == list("987654321"))
        assert browser.screen.query_one("#order", Input).value == "/id DESC"
        await pilot.press("down", "down", "enter")
        await settled(pilot, lambda: "2 versions" in said(browser))
        text = screen(pilot)
        assert '"price": 99.5,' in text
        assert "desk" in text
        assert "~ /price 14 → 99.5" in text
        assert '+ /note {"by":"ops"}' in text
        await pilot.press("down")
        await settled(pilot, lambda: "oldest known version" in screen(pilot))
        assert '"price": 14,' in screen(pilot)
        await pilot.press("escape")
        assert len(rows(browser)) == 9
        await pilot.press("escape")
        assert browser.sub_title or browser.screen.sub_title == "topics"
        await pilot.press("q")
        assert browser.return_code == 0

    with lab.open() as instance:
        drive(instance, keys)


@pytest.mark.parametrize("size", [(60, 20), (160, 40)])
def test_every_size_and_a_change_of_it(lab: Lab, size: tuple[int, int]) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await settled(pilot, lambda: "of 250" in said(browser))
        await pilot.press("enter")
        await settled(pilot, lambda: "version" in said(browser))
        assert browser.screen.query_one("#halves").has_class("narrow") == (size[0] < 100)
        await pilot.resize_terminal(size[0] // 2, 12)
        await settled(pilot)
        assert browser.screen.query_one("#halves").has_class("narrow")
        assert max(map(len, screen(pilot).splitlines())) <= size[0] // 2

    with lab.open() as instance:
        drive(instance, keys, size=size, target="[json].[orders]")


def ids_of(browser: Browser) -> list[int]:
    return [int(row[0]) for row in rows(browser)]


def test_more_records_are_read_where_the_cursor_goes_on(lab: Lab) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await settled(pilot, lambda: said(browser).startswith("record 1 of 250"))
        first = ids_of(browser)
        assert len(first) == 100
        await pilot.press("G", "down", "down", "down")
        await settled(pilot, lambda: len(rows(browser)) >= 200)
        # What was there stays where it was, and the cursor at its record.
        assert ids_of(browser)[:100] == first
        table: DataTable[Any] = browser.screen.query_one(DataTable)
        assert said(browser).startswith(f"record {table.cursor_row + 1} of 250")
        for _ in range(12):
            await pilot.press("pagedown")
            await settled(pilot)
        assert sorted(ids_of(browser)) == list(range(1, 251))
        assert said(browser).startswith("record 250 of 250")
        await pilot.press("enter")
        await settled(pilot, lambda: "version" in said(browser))
        assert browser.screen.sub_title == f"orders {ids_of_last(table)}"
        await pilot.press("escape", "g")
        await settled(pilot, lambda: said(browser).startswith("record 1 of 250"))
        # within a filter it is a letter, and leaves on every screen else
        await pilot.press("slash", "q")
        assert browser.is_running and browser.focused is not None
        await pilot.press("escape")
        await settled(pilot)
        assert type(browser.screen).__name__ == "RecordsPage" and not browser._exit
        await pilot.press("q")
        assert browser._exit

    with lab.open() as instance:
        drive(instance, keys, target="[json].[orders]")


def ids_of_last(table: DataTable[Any]) -> str:
    return str(table.get_row_at(table.row_count - 1)[0])


def test_records_that_are_far_away_leave_the_table_and_come_back(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records.TABLE_LIMITS, "max_rows", 150)

    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await settled(pilot, lambda: said(browser).startswith("record 1 of 250"))
        seen: dict[int, int] = {}
        table: DataTable[Any] = browser.screen.query_one(DataTable)

        def look() -> None:
            assert table.row_count <= 150
            place = int(said(browser).split()[1])
            seen.setdefault(place, int(str(table.get_row_at(table.cursor_row)[0])))
            assert seen[place] == int(str(table.get_row_at(table.cursor_row)[0]))

        for key, end in (("pagedown", "record 250 of"), ("pageup", "record 1 of")):
            for _ in range(60):
                look()
                await pilot.press(key)
                await settled(pilot)
                if said(browser).startswith(end):
                    break
            look()
            assert said(browser).startswith(end)
        assert len(set(seen.values())) == len(seen)

    with lab.open() as instance:
        drive(instance, keys, target="[json].[orders]")


def test_columns_of_later_records_are_added(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("orders"), ("orders",)))
    lab.publish("orders", *[message(id=n, rank=n) for n in range(149)], message(id=149, note="late", rank=149))

    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        browser.screen.query_one("#order", Input).value = "/rank"
        await settled(pilot, lambda: "rank ▲" in screen(pilot))
        assert "note" not in screen(pilot)
        await pilot.press("G")
        await settled(pilot, lambda: len(rows(browser)) == 150)
        assert rows(browser)[0] == ["0", "0", ""]
        assert rows(browser)[-1] == ["149", "149", "late"]

    with lab.open() as instance:
        drive(instance, keys, target="[json].[orders]")


def test_one_topic_and_one_entry_are_singular(tmp_path: Path) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await settled(pilot, lambda: "1 topic; Enter" in said(browser))
        await pilot.press("J")
        await settled(pilot, lambda: "1 entry, following" in said(browser))

    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", '{"id":1}')
    with lab.open() as instance:
        drive(instance, keys)


def test_every_screen_has_help_and_the_keys_of_vi(lab: Lab) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        async def helps(*words: str) -> None:
            before = browser.screen
            await pilot.press("question_mark")
            assert all(word in screen(pilot) for word in (*words, "Escape", "PageDown")), screen(pilot)
            await pilot.press("question_mark")
            assert browser.screen is before

        await helps("follow the journal", "list the queues")
        table: DataTable[Any] = browser.screen.query_one(DataTable)
        await pilot.press("j")
        assert table.cursor_row == 1
        await pilot.press("k", "enter")
        await settled(pilot, lambda: "of 250" in said(browser))
        await helps("edit the filter", "LIKE", "sowctl man expressions")
        await pilot.press("enter")
        await settled(pilot, lambda: "version" in said(browser))
        await helps("Tab")
        await pilot.press("escape", "escape", "J")
        await settled(pilot, lambda: len(rows(browser)) > 0)
        await helps("follow new entries")
        await pilot.press("escape", "u")
        await settled(pilot, lambda: "no queues" in said(browser))
        await helps()

    with lab.open() as instance:
        drive(instance, keys)


def test_records_are_named_by_their_key_fields(lab: Lab) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await pilot.press("J")
        await settled(pilot, lambda: len(rows(browser)) > 0)
        assert rows(browser)[0][4] == str(rows(browser)[0][6]).split(":")[1].split(",")[0]
        await pilot.press("escape", "enter")
        await settled(pilot, lambda: "of 250" in said(browser))
        await pilot.press("slash", *"/id = 7", "enter")
        await settled(pilot, lambda: "of 1;" in said(browser))
        await pilot.press("enter")
        await settled(pilot, lambda: "version" in said(browser))
        assert browser.screen.sub_title == "orders 7"

    with lab.open() as instance:
        drive(instance, keys)


def test_queues_and_their_messages_by_state(tmp_path: Path) -> None:
    lab = QueueLab(tmp_path / "lab", lab_xml(queue_xml("<MaxDeliveries>1</MaxDeliveries>")))
    lab.put(*range(1, 121))
    (first,) = lab.lease()
    lab.cancel(first)
    lab.lease(2, client="worker-a")

    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await pilot.press("u")
        await settled(pilot, lambda: len(rows(browser)) == 1)
        assert rows(browser)[0][:7] == ["work", "orders", "117", "2", "0", "0", "1"]
        await pilot.press("enter")
        await settled(pilot, lambda: "117 ready, 2 leased" in said(browser))
        assert len(rows(browser)) == 100
        await pilot.press("G")
        await settled(pilot, lambda: len(rows(browser)) == 120)
        assert [row[0] for row in rows(browser)].count("leased") == 2
        assert rows(browser)[-1][:2] == ["dead", "1"]
        await pilot.press("s")
        await settled(pilot, lambda: {row[0] for row in rows(browser)} == {"ready"})
        await pilot.press("s")
        await settled(pilot, lambda: [row[:2] for row in rows(browser)] == [["leased", "2"], ["leased", "3"]])
        assert "worker-a" in screen(pilot)
        await pilot.press("enter")
        assert '"id": 2' in screen(pilot)
        assert "state: leased" in screen(pilot)
        assert "token" in screen(pilot)
        await pilot.press("question_mark", "escape", "escape", "s")
        await settled(pilot, lambda: "there are none" in said(browser))
        await pilot.press("escape", "escape")
        table: DataTable[Any] = browser.screen.query_one(DataTable)
        table.move_cursor(row=[str(row[2]) for row in rows(browser)].index("Queue"))
        await pilot.press("enter")
        await settled(pilot, lambda: "117 ready" in said(browser))

    with lab.open() as instance:
        drive(instance, keys)
    assert lab.depth().leased == 2, "nothing was leased by looking"


def test_payloads_are_no_markup_and_command_no_terminal(lab: Lab) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await settled(pilot, lambda: "of 1" in said(browser))
        assert rows(browser) == [["[red]x[/red]", "\\x1b[31m[/nope]"]]
        await pilot.press("enter")
        # A topic without journal and history says so; the record is shown all the same.
        await settled(pilot, lambda: "SOW-QRY-022" in screen(pilot))
        assert "[red]x[/red]" in screen(pilot)
        assert "\x1b" not in screen(pilot)

    with lab.open() as instance:
        drive(instance, keys, target="[json].[odd]")


def test_remarks_are_shown_on_the_screen(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("orders"), ("orders",)))
    lab.publish("orders", message(id=1))
    lab.forget("orders")

    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await settled(pilot, lambda: len(rows(browser)) == 1)
        remark = next(iter(browser._notifications)).message
        assert "'orders'" in remark and "missing" in remark

    with lab.open() as instance:
        drive(instance, keys, target="[json].[orders]")
    assert lab.notes == []


def test_the_journal_is_followed(lab: Lab) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await pilot.press("J")
        await settled(pilot, lambda: len(rows(browser)) == 100)
        assert rows(browser)[-1][1:6] == ["251", "orders", "publish", rows(browser)[-1][4], "desk"]
        await asyncio.to_thread(lab.publish, "orders", message(id=7, price=1))
        await settled(pilot, lambda: len(rows(browser)) == 101)
        assert browser.screen.query_one(DataTable).cursor_row == 100
        await pilot.press("f")
        assert "paused" in said(browser)

    with lab.open() as instance:
        drive(instance, keys)


def test_what_takes_long_holds_up_no_key_and_no_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def forever(_: InstanceReader, wanted: PageRequest, stop: Stop) -> Records:
        begun.set()
        while not stop():
            time.sleep(0.01)
        ended.set()
        raise Stopped

    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await pilot.press("enter")
        await pilot.pause(0.05)
        assert begun.wait(5)
        await pilot.press("slash", *"/id = 1")
        assert browser.screen.query_one("#filter", Input).value == "/id = 1"
        await pilot.press("escape", "escape", "q")

    monkeypatch.setattr(InstanceReader, "read_page", forever)
    with lab.open() as instance:
        drive(instance, keys)
    assert ended.wait(5)


def test_the_loop_turns_while_a_question_computes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that decodes and filters holds the interpreter as much as it can; keys come through all the same."""
    begun = threading.Event()

    def computing(_: InstanceReader, wanted: PageRequest, stop: Stop) -> Records:
        begun.set()
        while not stop():
            sorted(range(5_000), key=lambda number: -number)
        raise Stopped

    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        await pilot.press("enter")
        while not begun.is_set():
            await pilot.pause(0.01)
        late = []
        for letter in "/id":
            before = time.monotonic()
            await asyncio.sleep(0.01)
            late.append(time.monotonic() - before - 0.01)
            await pilot.press("slash" if letter == "/" else letter)
        assert "reading ..." in said(browser)
        # Usually within milliseconds; the bounds leave room for a machine on which much else runs.
        assert sorted(late)[len(late) // 2] < 0.25, late
        assert max(late) < 2, late
        await pilot.press("escape", "escape", "q")

    monkeypatch.setattr(InstanceReader, "read_page", computing)
    with lab.open() as instance:
        drive(instance, keys)


def test_a_message_in_lines() -> None:
    assert format_message(b'{"a":{"b":[1.50,2],"c":[{"d":null}]},"e":{}}').splitlines() == [
        "{",
        '  "a": {',
        '    "b": [1.50,2],',
        '    "c": [',
        "      {",
        '        "d": null',
        "      }",
        "    ]",
        "  },",
        '  "e": {}',
        "}",
    ]
    assert format_change("/a", MISSING, "x") == '+ /a "x"'
    assert format_change("/a", "x", MISSING) == '- /a "x"'


def test_the_picture_of_the_readme_is_one_of_this_browser() -> None:
    picture = (Path(__file__).parents[2] / "samples" / "browse.svg").read_text(encoding="utf-8")
    # Not compared byte by byte: each release of Textual draws a little differently.
    for text in ("/status", "versions,", "publish", "Refresh"):
        assert text in picture
    assert "url(" not in picture.replace("url(#", "")


def test_a_filter_on_a_field_that_no_record_has_says_so(lab: Lab) -> None:
    async def keys(pilot: Pilot[None], browser: Browser) -> None:
        browser.screen.query_one("#filter", Input).value = "/sied = 'buy'"
        await settled(pilot, lambda: "no record matches" in said(browser))
        assert f" of orders {UNKNOWN_FIELD_WORDS} /sied; did you mean /side?" in said(browser)

    drive(lab.open(), keys, target="[json].[orders]")
