"""Resident memory of `kafkalog serve`, each minute, while clients join groups, fetch, commit, leave or break off."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import subprocess
import sys
import time
from pathlib import Path

_ROUND_SECONDS = (2.0, 15.0)
"""How long a client stays in its group."""


def by_client(number: int, address: str, topics: list[str], until: float) -> None:
    """One client after another until a time. Each joins one of two groups; one in four breaks off without leaving."""
    from confluent_kafka import Consumer

    chance = random.Random(number)
    while time.time() < until:
        protocol = chance.choice(["classic", "consumer"])
        consumer = Consumer({
            "bootstrap.servers": address, "group.id": f"memory-{protocol}", "auto.offset.reset": "earliest",
            "group.protocol": protocol, "isolation.level": chance.choice(["read_committed", "read_uncommitted"]),
            "enable.auto.commit": False,
            **({"session.timeout.ms": 10_000} if protocol == "classic" else {}),
        })  # fmt: skip
        consumer.subscribe(topics)
        end = time.monotonic() + chance.uniform(*_ROUND_SECONDS)
        while time.monotonic() < end:
            messages = [one for one in consumer.consume(1000, 0.5) if not one.error()]
            if messages and chance.random() < 0.02:
                consumer.commit(message=messages[-1], asynchronous=True)
            time.sleep(0.05)  # the clients are not to take all of the machine
        if chance.random() < 0.25:
            consumer.unsubscribe()
            del consumer
        else:
            consumer.close()


def memory_mib(pid: int) -> dict[str, float]:
    """Resident memory, and the part of it that is no mapped file."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return {name: int(fields[name][0]) / 1024 for name in ("VmRSS", "RssAnon")} | {"Threads": int(fields["Threads"][0])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log_dirs", nargs="+")
    parser.add_argument("--topic", action="append", required=True, help="a topic that the clients read")
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--clients", type=int, default=8, help="clients at a time")
    options = parser.parse_args()
    words = [sys.executable, "-m", "kafkalog_cli", "serve", *options.log_dirs, "--port", "0", "--format", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["bootstrap"]
        until = time.time() + options.minutes * 60
        context = multiprocessing.get_context("spawn")
        clients = [
            context.Process(target=by_client, args=(number, address, options.topic, until))
            for number in range(options.clients)
        ]
        try:
            for client in clients:
                client.start()
            print("| minute | RSS MiB | without files MiB | threads | descriptors |")
            print("|---:|---:|---:|---:|---:|", flush=True)
            for minute in range(options.minutes + 1):
                now = memory_mib(server.pid)
                descriptors = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
                row = (f"{now['VmRSS']:.0f}", f"{now['RssAnon']:.0f}", f"{now['Threads']:.0f}", str(descriptors))
                print(f"| {minute} | {' | '.join(row)} |", flush=True)
                time.sleep(max(0.0, until - options.minutes * 60 + (minute + 1) * 60 - time.time()))
            for client in clients:
                client.join()
            time.sleep(60)  # sessions of clients that broke off have ended
            now = memory_mib(server.pid)
            print("without clients:", ", ".join(f"{name} {value:.0f}" for name, value in now.items()))
            return max(client.exitcode or 0 for client in clients)
        finally:
            for client in clients:
                client.terminate()
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
