"""A real broker (KRaft, broker and controller in one), a second broker beside it, and a client; all on loopback."""

import re
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from tests.kafka.class_archives import archived
from tests.support.ports import HeldPort

JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dfile.encoding=UTF-8"]
CLUSTER_ID = "a2Fma2Fsb2ctdGVzdHMtMQ"
START_SECONDS = 300
STOP_SECONDS = 180
LOGGING = """\
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
"""
LOG_LINE = re.compile(r"^\[[^\]]*\] (TRACE|DEBUG|INFO|WARN|ERROR) ")
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # a controller fences a broker that is silent for so long, as all are where a machine stands still
    "broker.session.timeout.ms": "18000",
    "broker.heartbeat.interval.ms": "500",
    # the records have old timestamps, and nothing but the client and the loader may change the logs
    "log.retention.ms": "-1",
    "log.cleaner.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "3",
    "background.threads": "2",
}
OF_A_KILLED_BROKER = {"broker.session.timeout.ms": "3000"}
"""It is let in again when its session has ended, which begins when the controller starts."""
STOCK = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
"""What config/server.properties of Kafka's distribution sets, but for addresses and directories."""


class Broker:
    """Its files are in `folder`: the log directory (with the metadata log) in `data`, its log in `server.log`.

    `settings` come after the `usual` ones; the log directories `more_data` come after `data`; `overrides` are words of
    the command line, which server.properties does not show. `first`: the Broker of the same cluster that has the
    controller; without it this broker is the first. `is_dynamic`: its quorum has kraft.version 1, with the voters in
    the metadata log; without it they are in server.properties. `run_as`: words before the command, such as setpriv's.
    """

    def __init__(
        self, folder, class_path, settings=None, usual=SETTINGS, more_data=(), overrides=(), first=None,
        is_dynamic=False, run_as=(),
    ):  # fmt: skip
        self.folder, self.class_path = Path(folder), class_path
        self._usual, self.settings = usual, {**usual, **(settings or {})}
        self.data, self._log = self.folder / "data", self.folder / "server.log"
        self._more_data, self._overrides = more_data, overrides
        self._ports = [HeldPort(), HeldPort()]
        self.address, self.controller = (f"127.0.0.1:{one.number}" for one in self._ports)
        self._first, self._is_dynamic, self.run_as = first, is_dynamic, run_as
        self._process = None
        self._log_from = 0

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        """Formats the log directory if it is new; returns when clients are served."""
        self.begin()
        deadline = time.monotonic() + START_SECONDS
        while "Kafka Server started" not in self.log():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError("the broker does not start:\n" + self.log()[-4000:])
            time.sleep(0.1)
        return self

    def begin(self):
        """The same, and does not wait; returns the process."""
        properties = self.write_properties()
        (self.folder / "log4j2.properties").write_text(LOGGING)
        if not self.data.exists():
            words = ["format", "-t", CLUSTER_ID, "-c", properties, *["--standalone"][: self._is_dynamic]]
            self._java("kafka.tools.StorageTool", *words).wait(START_SECONDS)
        self._log_from = self._log.stat().st_size if self._log.exists() else 0
        self._process = self._java("kafka.Kafka", properties, *self._overrides)
        return self._process

    def stop(self):
        """A clean stop (SIGTERM)."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self):
        """kill -9; nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self):
        """The same, and its ports are free for others."""
        self.kill()
        for one in self._ports:
            one.close()

    def log(self):
        """What the broker has logged since its last start."""
        with self._log.open("rb") as log:
            log.seek(self._log_from)
            return log.read().decode("utf-8", "replace")

    def log_entries(self):
        """(level, text) of each entry since the last start; a stack trace is part of its entry."""
        entries = []
        for line in self.log().splitlines():
            start = LOG_LINE.match(line)
            if start:
                entries.append((start[1], line))
            elif entries:
                entries[-1] = (entries[-1][0], f"{entries[-1][1]}\n{line}")
        return entries

    def write_properties(self):
        places = {
            "log.dirs": ",".join(map(str, [self.data, *self._more_data])),
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{self.controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            **(
                {"controller.quorum.bootstrap.servers": self.controller}
                if self._is_dynamic
                else {"controller.quorum.voters": f"1@{self.controller}"}
            ),
        }
        if self._first is not None:
            places["listeners"] = places["advertised.listeners"]
            places["controller.quorum.voters"] = f"1@{self._first.controller}"
            places |= {"process.roles": "broker", "node.id": "2"}
        has_stopped_cleanly = not self.data.exists() or (self.data / ".kafka_cleanshutdown").exists()
        if not has_stopped_cleanly and self._usual is SETTINGS:
            places |= OF_A_KILLED_BROKER
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in {**self.settings, **places}.items()))
        return path

    def _java(self, main, *arguments):
        archive = archived("broker", self.class_path, writes=main == "kafka.Kafka")
        logging = f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties"
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*self.run_as, *JAVA, *archive, logging, "-cp", self.class_path, main, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@contextmanager
def broker(folder, class_path, settings=None, **more):
    """A broker that is not started yet, and does not outlive the block; the arguments are Broker's."""
    one = Broker(folder, class_path, settings, **more)
    try:
        yield one
    finally:
        one.close()


class Client:
    """Commands of java/Client.java, in one JVM, which ends with the block: open transactions stay open."""

    def __init__(self, address, class_path):
        self._process = subprocess.Popen(
            [*JAVA, *archived("broker", class_path, writes=False), "-cp", class_path, "Client", address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(STOP_SECONDS)
        self._process.stdout.close()

    def do(self, *words, **options):
        line = "\t".join([*map(str, words), *(f"{name}={value}" for name, value in options.items())])
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError(answer or f"the client has ended at {line}")
