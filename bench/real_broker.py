"""A real broker for rows that need one, with the heap and the collector of kafka-server-start.sh; it ends with us."""

from __future__ import annotations

import atexit
import shutil
import sys
from pathlib import Path
from typing import Any

from jvm import kafka_jars

TOPIC = "produced"
_TESTS = Path(__file__).resolve().parent.parent
_SERVER = [
    "java",
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:+ExplicitGCInvokesConcurrent",
]
_SETTINGS = {"auto.create.topics.enable": "true", "num.partitions": "1", "log.segment.bytes": str(1 << 30)}


class RealBroker:
    """Started when it is first asked for. What is produced stays until the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._address: str | None = None

    def address(self) -> str:
        """Where it listens."""
        if self._address is None:
            self._address = self._start()
        return self._address

    def _start(self) -> str:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        one, _ = broker_in(self._directory, _SETTINGS)
        atexit.register(shutil.rmtree, self._directory, ignore_errors=True)
        atexit.register(one.kill)
        one.start()
        return str(one.address)


def broker_in(directory: Path, settings: dict[str, str]) -> tuple[Any, str]:
    """The broker of the interop tests, not started, with its files in a directory; and the class path of its tools."""
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))
    from tests.kafka import broker  # type: ignore[import-not-found]

    jars = kafka_jars()
    if jars is None:
        raise SystemExit("a broker needs Java and Maven")
    broker.JAVA = _SERVER
    talking = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")) if not jar.name.startswith("slf4j-nop"))
    return broker.Broker(directory, talking, settings), talking
