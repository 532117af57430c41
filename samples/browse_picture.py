"""Makes ``samples/browse.svg``, the README's picture of ``sowctl browse``: the same bytes in every run.

Run it from the top of the tree: ``python samples/browse_picture.py``. It makes a demo in a temporary directory, opens
the record of an order by keys as a person would, and lets Textual draw the screen.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from sowctl.browse.app import Browser
from sowctl.engine.instance import Instance
from sowctl.values.times import fixed_clock, parse_time, system_clock

PICTURE = Path(__file__).parent / "browse.svg"
SIZE = (118, 24)
NOW = "2026-01-05T11:40:00Z"


async def drawn(config: Path) -> str:
    """The picture of an order with its versions."""
    with Instance.open(config, clock=fixed_clock(parse_time(NOW, system_clock))) as instance:
        browser = Browser(instance, "[json].[orders]", "orders")
        async with browser.run_test(size=SIZE) as pilot:
            await browser.workers.wait_for_complete()
            await pilot.press("slash", *"/orderId = 10267", "enter")
            await pilot.pause(0.5)
            await browser.workers.wait_for_complete()
            await pilot.pause()
            await pilot.press("enter")
            await pilot.pause(0.1)
            await browser.workers.wait_for_complete()
            await pilot.pause()
            return browser.export_screenshot(title="sowctl browse", simplify=True)


def picture() -> str:
    """The SVG, without the fonts that it would load from elsewhere."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "sowctl", "demo", f"{place}/demo", "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        svg = asyncio.run(drawn(Path(place) / "demo" / "sowctl.xml"))
    return re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
