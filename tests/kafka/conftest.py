"""Marks what needs the real Kafka, and skips it aloud where that is not to be had."""

from pathlib import Path

import pytest

from tests.kafka.change_cases import RealLogs
from tests.kafka.fuzz_changes import settled_logs
from tests.kafka.real_kafka import NEWEST, VERSION, NoRealKafka, real_kafka_here
from tests.support.effort import DIAL

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    here = {path for path in {item.path for item in items} if HERE in path.parents}
    for item in items:
        if item.path in here:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def real_kafka():
    return kafka_or_skip(VERSION)


@pytest.fixture(scope="session")
def newest_kafka():
    return kafka_or_skip(NEWEST)


@pytest.fixture(scope="session")
def real_logs(real_kafka):
    with RealLogs(real_kafka.class_path) as logs:
        yield logs


@pytest.fixture(scope="session")
def settled(real_logs, corpus, tmp_path_factory):
    """The logs that random changes and appends start from."""
    return settled_logs(DIAL.part(200), 1, real_logs, corpus, tmp_path_factory.mktemp("settled"))


def kafka_or_skip(version):
    try:
        return real_kafka_here(version)
    except NoRealKafka as reason:
        pytest.skip(str(reason))
