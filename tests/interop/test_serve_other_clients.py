"""Unmodified clients of other languages read from `serve` what `kafkalog read` prints: each topic, both isolations."""

import subprocess
import time

import pytest

from tests.interop import client_programs
from tests.interop.broker import JAVA, broker
from tests.interop.client_programs import by_franz_go, by_kafkajs, by_kcat
from tests.interop.real_kafka import NoRealKafka
from tests.interop.spark_connector import connector_jars
from tests.support.serving import read_records, serving

TOPICS = {"txn": ("idem", "tx", "tx2"), "upgraded": ("upgraded",), "v2-mixed": ("mixed",), "v0": None, "v1": None}
ISOLATIONS = ("read_uncommitted", "read_committed")
ONLY_GZIP = "kafkajs decompresses gzip only"


def topics_of(corpus, case):
    names = {path.name.rpartition("-")[0] for path in (corpus / case / "data").glob("*-[0-9]*")}
    return TOPICS[case] or sorted(name for name in names if not name.startswith("__"))


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("client", [by_kcat, by_franz_go, by_kafkajs])
@pytest.mark.parametrize("case", TOPICS)
def test_clients_read_all_records(corpus, case, client, isolation):
    log_dir = corpus / case / "data"
    with serving(log_dir) as server:
        for topic in topics_of(corpus, case):
            wanted = read_records(log_dir, topic, committed=isolation == "read_committed")
            count = sum(map(len, wanted.values()))
            try:
                found = client(server.bootstrap, topic, isolation, count, f"{topic}-{isolation}")
            except NoRealKafka as reason:
                pytest.skip(str(reason))
            assert found == wanted
            assert count
