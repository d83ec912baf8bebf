"""A real broker refuses a reserved directory id at its start, and verify reports it."""

import re

import pytest

from tests.kafka.broker import broker
from tests.support.commands import kafkalog

RESERVED = "AAAAAAAAAAAAAAAAAAAAYw"
"""The number 99: DirectoryId.reserved takes those below 100."""


def test_a_broker_refuses_a_reserved_directory_id(real_kafka, tmp_path):
    with broker(tmp_path, real_kafka.broker_class_path) as life:
        life.start().stop()
        meta = life.data / "meta.properties"
        _, out, _ = kafkalog("verify", str(life.data))
        assert "[meta-properties]" not in out
        meta.write_text(re.sub(r"directory\.id=.*", f"directory.id={RESERVED}", meta.read_text()))
        with pytest.raises(RuntimeError, match=f"directory ID {RESERVED}"):
            life.start()
        code, out, _ = kafkalog("verify", str(life.data))
        assert (code, "directory.id is reserved [meta-properties]" in out) == (4, True)
