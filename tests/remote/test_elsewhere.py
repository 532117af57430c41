"""An archive in an object store of somebody else's: ``SOWCTL_TEST_S3=http://host:port`` names one (MinIO, moto, ...).

Credentials are those of the environment; the bucket is made by the test, under a new name. Not part of a usual run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sowctl.engine.bulk.commit import commit
from sowctl.engine.bulk.remoteruns import sweep
from sowctl.engine.bulk.staging import staging
from sowctl.errors import MissingError
from sowctl.journal.reader import Journal
from sowctl.journal.upkeep.sending import Sending
from sowctl.journal.upkeep.survey import survey
from sowctl.remote import opening
from sowctl.remote.place import url_of
from tests.support.instances import message
from tests.support.journals import INSTANCE, NO_SYNC, contents, group, open_writer, publish, texts
from tests.support.staged import SKIP, make, stage

ENDPOINT = os.environ.get("SOWCTL_TEST_S3", "")


@pytest.mark.skipif(not ENDPOINT, reason="SOWCTL_TEST_S3 names no object store")
def test_an_archive_there(tmp_path: Path) -> None:
    scheme, _, host = ENDPOINT.partition("://")
    bucket = f"sowctl-{os.urandom(6).hex()}"
    options = f"?endpoint_override={host}&scheme={scheme}&region=us-east-1&allow_bucket_creation=true"
    with pytest.raises(MissingError) as caught:
        opening.read(url_of(f"s3://{bucket}/a{options}"))
    assert caught.value.code == "SOW-RMT-003"
    root = url_of(f"s3://{bucket}/journal{options}")
    system, path = opening._locate_path(root)
    system.create_dir(path.partition("/")[0])
    log = tmp_path / "log"
    with open_writer(log, NO_SYNC, journal_size=1600) as writer:
        for number in range(6):
            publish(writer, group(texts(12, tag=f"g{number}"), time=1000 + number))
    files = [file for file in survey(log, INSTANCE, NO_SYNC) if file.is_finished]
    list(Sending(root, INSTANCE, NO_SYNC, 7).run(files))
    assert [one.anew for one in Sending(root, INSTANCE, NO_SYNC, 7, verify=True).run(files)] == [False] * len(files)
    with Journal.open(root, INSTANCE) as journal:
        found = [(entry.txid, entry.payload) for block in journal.blocks() for entry in block.entries()]
    assert found == contents(log)[: len(found)] and len(found) == 12 * len(files)
    opening.delete(root / files[2].path.name)
    assert [one.anew for one in Sending(root, INSTANCE, NO_SYNC, 7, verify=True).run(files)].count(True) == 1
    big = os.urandom(11 << 20)
    opening.write(root / "big", [big[:5_000_000], big[5_000_000:]])
    assert opening.read(root / "big") == big
    opening.delete_all(root)
    assert opening.listed(root, below=True) == []


@pytest.mark.skipif(not ENDPOINT, reason="SOWCTL_TEST_S3 names no object store")
def test_staging_there(tmp_path: Path) -> None:
    scheme, _, host = ENDPOINT.partition("://")
    bucket = f"sowctl-{os.urandom(6).hex()}"
    options = f"?endpoint_override={host}&scheme={scheme}&region=us-east-1&allow_bucket_creation=true"
    root = url_of(f"s3://{bucket}/stage{options}")
    system, path = opening._locate_path(root)
    system.create_dir(path.partition("/")[0])
    lab = make(tmp_path)
    instance = lab.open()
    with staging(instance, instance.topic("log").config, directory=root) as area:
        plan = area.plan(SKIP, keep_rejects=True)
        done = [stage(plan, f"t{n}", n, [message(id=k, n=n) for k in range(500)] + ["no"]) for n in range(3)]
        assert sweep(root) == []
        report = commit(area, plan, done)
    assert (report.published, report.rejected) == (1500, 3) and len(lab.query("log")) == 500
    assert [one for one in opening.listed(root, below=True) if one.size] == []
    # what nobody asks for is removed when it is old, as the store tells its age
    opening.write(root / "run-old" / "owner", [b"{}"])
    assert sweep(root) == [] and opening.directories(root) == [root / "run-old"]
    opening.delete_all(root)
