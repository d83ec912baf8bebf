"""Metadata logs against a broker's own loader of them (MetadataDelta, MetadataBatchLoader)."""

import random
import subprocess

import pytest

from tests.kafka.real_kafka import JAVA
from tests.support.metadata_logs import RandomRecords, batches, leader_change, snapshot, value
from tests.support.product import RealFilesystem
from tests.support.product_kafka import read_cluster_metadata


@pytest.fixture(scope="module")
def load(real_kafka):
    def images(cases):
        done = subprocess.run(
            [*JAVA, "-Xmx512m", "-cp", real_kafka.class_path, "MetadataImages"],
            input="".join("\t".join(map(str, files)) + "\n" for files in cases),
            text=True,
            encoding="utf-8",
            capture_output=True,
            check=False,
        )
        assert not done.returncode, done.stderr[-2000:]
        return [[*answer.splitlines()] for answer in ("\n" + done.stdout).split("\n.\n")[:-1]]

    return images


def numbers(values):
    return f"[{','.join(map(str, values))}]"


def lines_of(metadata):
    """As the Java side prints its image."""
    lines = []
    for topic in metadata.topics.values():
        lines.append(f"topic {topic.name} {topic.topic_id}")
        for number, p in topic.partitions.items():
            lines.append(
                f"partition {topic.name} {number} replicas {numbers(p.replicas)} isr {numbers(p.isr)} leader {p.leader}"
                f" {p.leader_epoch} {p.partition_epoch} in {numbers(p.directories)} adding {numbers(p.adding_replicas)}"
                f" removing {numbers(p.removing_replicas)} recovering {str(p.is_recovering).lower()}"
            )
    for (kind, name), settings in metadata.configs.items():
        lines += [f"config {kind} {name} {key}={text}" for key, text in settings.items()]
    lines += [f"feature {name} {level}" for name, level in metadata.features.items()]
    for b in metadata.brokers.values():
        lines.append(
            f"broker {b.broker_id} {b.broker_epoch} {b.incarnation_id} fenced {str(b.is_fenced).lower()} stopping"
            f" {str(b.in_controlled_shutdown).lower()} in {numbers(b.log_dirs)} rack {b.rack or '-'}"
        )
    return sorted(lines)


@pytest.mark.full
def test_the_metadata_of_random_logs_is_that_of_the_real_classes(load, tmp_path):
    chance = random.Random(7)
    cases, folders, facts = [], [], 0
    for at in range(400):
        folder = tmp_path / f"{at}" / "__cluster_metadata-0"
        folder.mkdir(parents=True)
        records, start, name = RandomRecords(chance), 0, ""
        version = [value("FeatureLevelRecord", name="metadata.version", featureLevel=29)]
        if chance.random() < 0.6:
            start = 20
            name = folder / f"{start:020d}-{1:010d}.checkpoint"
            first = [version, *([records.next() for _ in range(2)] for _ in range(8))]
            name.write_bytes(snapshot(first))
            base = chance.choice([0, start])
            # What is below the snapshot's end is not looked at; the last batch may reach over it.
            old = [[value("TopicRecord", name="gone", topicId="A" * 21 + "w")]] * (start - base)
            log, offset = batches(old, base)
        else:
            base = 0
            log, offset = batches([version])
        log += leader_change(offset)
        more, end = batches(records.groups(chance.randrange(1, 25)), offset + 1)
        files = [folder / f"{base:020d}.log"]
        if chance.random() < 0.3:
            files.append(folder / f"{offset + 1:020d}.log")
            files[1].write_bytes(more)
            more = b""
        files[0].write_bytes(log + more)
        cases.append((name, *files))
        folders.append((folder, start, end))
    for (folder, start, end), real in zip(folders, load(cases), strict=True):
        ours = read_cluster_metadata(RealFilesystem(), str(folder))
        assert lines_of(ours) == sorted(filter(None, real))
        assert ours.is_complete
        assert ours.faults == ()
        assert (ours.end_offset, ours.snapshot and ours.snapshot.end_offset, ours.voters) == (
            end,
            start or None,
            (1, 2, 3),
        )
        facts += len(real)
    assert facts > 3000
    print(f"{facts} facts of {len(cases)} logs")


def test_the_metadata_log_of_a_broker_is_read_as_by_the_real_classes(load, corpus):
    folder = corpus / "internal" / "data" / "__cluster_metadata-0"
    checkpoint, log = folder / f"{90:020d}-{1:010d}.checkpoint", folder / f"{0:020d}.log"
    ours = lines_of(read_cluster_metadata(RealFilesystem(), str(folder)))
    assert [sorted(filter(None, real)) for real in load([(checkpoint, log), ("", log)])] == [ours, ours]
