"""Logs to ask."""

import pytest

from tests.spark.querying import make_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The logs that queries are asked of."""
    return make_shop(tmp_path_factory.mktemp("shop"))
