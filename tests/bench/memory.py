"""How much memory long runs take: their largest RssAnon, and that they end well under a limit.

RssAnon is what a process has for itself: heap, stacks, anonymous maps. The pages of a mapped store are the kernel's
page cache, which it takes back when memory is short, so they are not counted; nor would RLIMIT_AS be a fair limit,
because it counts the address space of the map, twice the file by design. RLIMIT_DATA counts private writable memory
only, which is what a program takes away from others; everything here runs under 1 GiB of that.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.place import Place
from tests.bench.rounds import ROOT, Wrong, judge, output_of

TITLE = "memory: largest RssAnon, MB"
LIMIT = 1 << 30
_SORTED = ["--order-by", "/price", "--no-index"]
LIMITED = [
    sys.executable,
    "-c",
    "import os, resource, sys; limit = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)); "
    "os.execv(sys.argv[2], sys.argv[2:])",
    str(LIMIT),
]
"""Sets RLIMIT_DATA and becomes the program that follows."""


def run(place: Place, rounds: int) -> None:
    """Publishes five times the usual number of messages, rebuilds, deletes and expires them; then orders and snapshots
    the usual number."""
    count = 5 * place.count
    instance = place.instance("memory", fresh=True)
    most, seconds = watch(instance.publish(), feed=place.input(count))
    held = int(output_of(instance.command("query", "orders", "--count")))
    print(f"  publish of {count:,} messages, {held:,} keys, in {seconds:.1f} s under RLIMIT_DATA of 1 GiB")
    judge("publish", most, 400, most=True)
    for name, argv, limit in (
        ("replay of all of it", instance.command("replay", "orders", "--rebuild"), 400),
        ("delete of all of it", instance.command("delete", "orders", "--filter", "1 = 1", "--yes"), 150),
    ):
        most, seconds = watch(argv)
        judge(f"{name} ({seconds:.1f} s)", most, limit, most=True)
    if int(output_of(instance.command("query", "orders", "--count"))):
        raise Wrong("records are left behind a delete of all")
    instance.clear("sow", "journal")
    # The lifetime lies ahead of the clock of the publish, and behind that of the expire.
    expires = "<Expiration>1h</Expiration><FileName>"
    instance.config.write_text(instance.config.read_text().replace("<FileName>", expires))
    watch(instance.publish(), feed=place.input(count))
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86_400))
    most, seconds = watch(instance.command("expire", "orders", "--now", later))
    judge(f"expire of all of it ({seconds:.1f} s)", most, 400, most=True)
    if int(output_of(instance.command("query", "orders", "--count", "--now", later))):
        raise Wrong("records are left behind an expire of all")
    instance.clear("sow", "journal")
    instance = place.loaded()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    snapshot = str(place.root / "memory.sow")
    for name, argv, limit in (
        ("query, everything", instance.command("query", "orders"), 150),
        ("query --order-by, sorting in 64 MB", instance.command("query", "orders", *_SORTED), 250),
        ("query --format csv", instance.command("query", "orders", "--format", "csv"), 150),
        ("query --format table", instance.command("query", "orders", "--format", "table"), 150),
        ("query --format json --meta", instance.command("query", "orders", "--format", "json", "--meta"), 250),
        ("query --format msgpack", instance.command("query", "orders", "--format", "msgpack"), 150),
        ("query --order-by --top-n 10", instance.command("query", "orders", "--order-by", "/price", "-n", "10"), 150),
        ("snapshot into a .sow file", instance.command("snapshot", "orders", "--at", stamp, "--output", snapshot), 400),
        ("snapshot as lines", instance.command("snapshot", "orders", "--at", stamp), 400),
        ("replay --verify", instance.command("replay", "orders", "--verify"), 400),
    ):
        Path(snapshot).unlink(missing_ok=True)
        most, seconds = watch(argv)
        judge(f"{name} ({seconds:.1f} s)", most, limit, most=True)
    for left in place.root.glob("memory.sow*"):
        left.unlink()


def watch(argv: Sequence[str], feed: Path | None = None) -> tuple[float, float]:
    """Run a process under the limit; its largest RssAnon in MB, sampled every 20 ms, and its seconds. Raises Wrong."""
    source = subprocess.Popen(["cat", str(feed)], stdout=subprocess.PIPE) if feed is not None else None
    stdin = source.stdout if source is not None else subprocess.DEVNULL
    begin, most = time.perf_counter(), 0
    child = subprocess.Popen(
        [*LIMITED, *argv], stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    if source is not None and source.stdout is not None:
        source.stdout.close()
    while child.poll() is None:
        most = max(most, _anonymous(child.pid))
        time.sleep(0.02)
    if child.returncode:
        raise Wrong(f"{' '.join(argv)[:200]} ended with status {child.returncode}")
    return most / 1e6, time.perf_counter() - begin


def _anonymous(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = [line for line in text.splitlines() if line.startswith("RssAnon:")]
    return int(found[0].split()[1]) << 10 if found else 0
