"""Marks what needs the real Kafka, and skips it aloud where that is not to be had."""

from pathlib import Path

import pytest
from real_kafka import NoRealKafka, real_kafka_here

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def real_kafka():
    try:
        return real_kafka_here()
    except NoRealKafka as reason:
        pytest.skip(str(reason))
