"""Planning 10 TB of journal on Spark's driver: files of 1 GiB that have headers and a block to look at, and holes.

Nothing is read but what a plan reads, so no virtual machine is started. Each plan is made by a process of its own,
whose time and largest memory are shown; the tasks and shuffle blocks are those that Spark would be given.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from pathlib import Path

from sowctl.journal.blockcodec import LAST_BLOCK_FLAG, BlockHeader, compute_header_seed, pack_block_header
from sowctl.journal.format import format_file_name, pack_file_header, pack_rows
from tests.bench.place import Place
from tests.bench.rounds import ROOT, judge

TITLE = "planning: 10 TB of journal, by headers of synthetic files"
INSTANCE, LINEAGE = "bench", bytes(range(16))
FILES, SIZE = 10_240, 1 << 30
ENTRIES = 24_000_000
"""Of a file: 44 bytes each, as stored, the measured 43 MB for a million orders."""
BLOCK = BlockHeader(1, LAST_BLOCK_FLAG, 1024, 1, 1, 1024, 0, 0, 0, 60, 15_000, 60_000, 30_000, 213_000, 0, 0, 0, 0, 0)
"""A block of a thousand orders of 208 bytes."""
PROCESSORS = 400
"""Of the cluster that is planned for: 100 executors of 4."""
SECONDS, MEMORY = 60.0, 1024.0
"""What a plan may take at most, in seconds and MB."""


def run(place: Place, rounds: int) -> None:
    """Plan reading and folding; once from the files, once from a list of segments alone."""
    directory = place.root / "planning"
    made = len(list(directory.glob("*.journal"))) if directory.exists() else 0
    if made != FILES + 1:
        begin = time.perf_counter()
        synthetic(directory)
        print(f"  {FILES:,} files of {SIZE >> 30} GiB made in {time.perf_counter() - begin:.1f} s")
    for what in ("files", "segments"):
        command = [sys.executable, "-m", "tests.bench.planning", what, str(directory)]
        told = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
        print(f"  from {what}: {told['entries']:,} entries, {told['stored'] >> 30:,} GiB as stored")
        print(f"    sow-journal   {told['tasks']:,} tasks of {told['bytes'] >> 20} MiB, {told['sent']:,} bytes to send")
        shape = told["fold"]
        print(
            f"    fold          {shape['tasks']:,} tasks ({shape['maps']:,} read, {shape['between']:,} between, "
            f"{shape['buckets']:,} end), {shape['shuffle_blocks']:,} shuffle blocks, {shape['parts']} parts of a bucket"
        )
        judge(f"seconds from {what}", told["seconds"], SECONDS, most=True)
        judge(f"MB of the driver's Python from {what}", told["memory"], MEMORY, most=True)
        judge(f"shuffle blocks from {what}", shape["shuffle_blocks"], 1e6, most=True)


def synthetic(directory: Path) -> None:
    """Files with headers, sizes and one block each, in the middle; the last one is empty, as after a roll."""
    directory.mkdir(parents=True, exist_ok=True)
    checkpoint = pack_rows([[], []])
    for number in range(FILES + 1):
        first = 1 + number * ENTRIES
        with (directory / format_file_name(INSTANCE, number)).open("wb") as file:
            file.write(pack_file_header(LINEAGE, first, number, 0, checkpoint))
            if number < FILES:
                offset = SIZE // 2 + 4096
                file.seek(offset)
                file.write(pack_block_header(BLOCK, 0, compute_header_seed(LINEAGE, number, offset)))
                file.truncate(SIZE)


def read_peak_megabytes() -> float:
    """Return the largest memory of this process since it was started.

    Not by ``getrusage``, whose figure begins with that of the process which started this one.
    """
    facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(facts["VmHWM"].split()[0]) / 1024


def planned(what: str, directory: Path) -> dict[str, object]:
    """What one process makes of the files, or of a list of what stands in their headers."""
    from sowctl.journal.reader import Journal
    from sowctl.journal.stretch import Segment, find_spans
    from sowctl.spark.jobs.folds.distributed_fold import plan_fold_tasks
    from sowctl.spark.reading.journalplan import plan_partitions, plan_stretches

    begin = time.perf_counter()
    if what == "files":
        with Journal.open(directory, INSTANCE) as log:
            segments = log.list_segments()
            parts = plan_stretches(log, 0, None, None)
            wanted, shape = plan_fold_tasks(log, segments, 0, segments[-1].last_txid, PROCESSORS)
    else:
        segments = [Segment(number, SIZE, 1 + number * ENTRIES, (number + 1) * ENTRIES) for number in range(FILES)]
        parts = plan_partitions(segments, 0, segments[-1].last_txid)
        wanted, shape = plan_fold_tasks(_Sampled(), segments, 0, segments[-1].last_txid, PROCESSORS)
    stored = sum(span.size for span in find_spans(segments, 0, segments[-1].last_txid))
    seconds = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "memory": read_peak_megabytes(),
        "entries": segments[-1].last_txid,
        "stored": stored,
        "tasks": len(parts),
        "bytes": stored // len(parts),
        "sent": sum(len(pickle.dumps(part)) for part in parts),
        "fold": {
            "tasks": shape.task_count,
            "maps": len(wanted),
            "between": shape.task_count - shape.maps - shape.buckets,
            "buckets": shape.buckets,
            "parts": shape.parts,
            "shuffle_blocks": shape.shuffle_blocks,
        },
    }


class _Sampled:
    """What a plan asks a journal for that is not there."""

    def locate_txid(self, segment: object, txid: int) -> tuple[int, int]:
        raise AssertionError("all of it is planned")

    def sample_header(self, segment: object) -> BlockHeader:
        return BLOCK


if __name__ == "__main__":
    print(json.dumps(planned(sys.argv[1], Path(sys.argv[2]))))
