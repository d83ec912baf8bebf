"""Marks what needs the real Kafka, and skips it aloud where that is not to be had."""

from pathlib import Path

import pytest

from tests.interop.real_kafka import NEWEST, VERSION, NoRealKafka, real_kafka_here

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def real_kafka():
    return kafka_or_skip(VERSION)


@pytest.fixture(scope="session")
def newest_kafka():
    return kafka_or_skip(NEWEST)


def kafka_or_skip(version):
    try:
        return real_kafka_here(version)
    except NoRealKafka as reason:
        pytest.skip(str(reason))
