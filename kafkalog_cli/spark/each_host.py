"""A verb on the disks of all hosts of a Spark cluster: each host plans what its own disks need, and does it.

Each executor is asked for its place: the machine, its mounts and the devices of the paths. One executor of a place
plans, and all of them share its work in tasks of about a second. Spark has a task run on a preferred executor while
that lives. A task that runs in another place reads nothing there, and its items are handed out again. No barrier stage
is needed, which needs all executors free at once and fails with any one of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli import __version__
from kafkalog_cli.errors import HostMissing, KafkalogError, NothingSelected, UsageError, counted
from kafkalog_cli.ops.call.host_plan import HostPlan, HostsRequest, Place, plan_on_host
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.map_each import POLL_SECONDS, Advance, Failed, Item, Known, do_not_report, run_item
from kafkalog_cli.spark.jobs import Jobs, plain_errors
from kafkalog_cli.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {"spark.locality.wait": "1h"}
"""A task waits for its executor, which is busy, instead of starting elsewhere. It does not wait for a dead one."""
START_SECONDS, ANSWER_SECONDS = 120.0, 15.0
"""How long the first executor may take to answer, and each other after the one before."""
RETURN_SECONDS = 20.0
"""The least time for which a host without an executor is waited for: a worker of Spark restarts a killed one."""
LOOK_SECONDS = 1.0
"""The time between two looks for executors that have come or gone."""
TASK_BYTES = 512 << 20
ITEM_BYTES = 1 << 20
"""The work of an item beside the bytes that it reads, as bytes."""
TASKS_PER_CORE = 4
"""The least tasks that a core gets, so that all cores of a host end together."""
MOST_HELD = 20_000
"""Results that may wait for those of other hosts about earlier subjects."""
MOST_JOBS = 512


HostPath = tuple[str, str]
"""The name of a host, and a path there."""
_Key = int | HostPath
"""Of a result: the position of an item among those of all hosts, or what a question is about."""


class HostResult(NamedTuple):
    """The result of an item on a host."""

    host: str
    result: Any


@dataclass(slots=True)
class _Chunk:
    """Items for one task. `run` and `failed`: see HostPlan. `is_over`: no result is wanted any more."""

    run: Callable[[Item[Any], Advance], Any] | None
    failed: Failed[Any, Any] | None
    items: list[tuple[_Key, Item[Any]]] = field(default_factory=list)
    is_question: bool = False
    is_over: bool = False


@dataclass(slots=True, eq=False)
class _Host:
    """A place with the paths. `lost_at`: when it had no executor any more. `loss`: the error that says so."""

    name: str
    place: Place
    executors: dict[str, int] = field(default_factory=dict)
    """The cores of each executor."""
    plan: HostPlan | None = None
    chunks: deque[_Chunk] = field(default_factory=deque)
    running: list[_Chunk] = field(default_factory=list)
    lost_at: float | None = None
    loss: HostMissing | None = None


class _Task(NamedTuple):
    """What a task gets; `pickled` has the function, and the items' values."""

    place: Place
    paths: tuple[str, ...]
    pickled: bytes


@contextmanager
def each_host(sessions: Sessions, request: HostsRequest) -> Iterator[Hosts]:
    """Yield the hosts, of which none is known before `find`. Spark starts with the context, and ends with it.

    Raises KafkalogError if Spark does not start.
    """
    with ExitStack() as resources:
        spark = resources.enter_context(sessions())
        pool = ThreadPoolExecutor(MOST_JOBS, "kafkalog-hosts")
        jobs = Jobs(spark, "kafkalog")
        try:
            yield Hosts(spark, jobs, pool, request)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            jobs.cancel()


class Hosts:
    """The hosts that have the paths, and the results of a verb on them.

    `names` are those of the hosts, in the order of the results of one subject. `missing` are errors that name the hosts
    that did not answer, or do not have what they should have.
    """

    def __init__(self, spark: SparkSession, jobs: Jobs, pool: ThreadPoolExecutor, request: HostsRequest) -> None:
        from pyspark import cloudpickle

        self._spark, self._jobs, self._pool, self._request = spark, jobs, pool, request
        self._verb = cloudpickle.dumps(request.verb)
        self._pickled: Callable[[Any], bytes] = cloudpickle.dumps
        self._executors: dict[str, tuple[str, int]] = {}
        """The addresses and cores of those that live."""
        self._asked: set[str] = set()
        self._hosts: dict[Place, _Host] = {}
        self._ended: SimpleQueue[tuple[Callable[[Future[Any]], None], Future[Any]]] = SimpleQueue()
        self._pending = 0
        self._news_at = self._looked_at = 0.0
        self._return_seconds = RETURN_SECONDS
        self._results: dict[_Key, Any] = {}
        self._working: list[_Host] = []
        self._advance: Advance = do_not_report
        self._next = 0
        self.missing: list[KafkalogError] = []
        self._silent: dict[str, KafkalogError] = {}

    # -- who is there

    def find(self) -> None:
        """Ask all executors what their hosts have, until all that must answer did, or no more answer.

        Raises UsageError if nothing says which hosts must answer, NothingSelected, and the first error if no host has
        the paths.
        """
        begun = self._news_at = time.monotonic()
        most_seconds = START_SECONDS
        while not self._is_complete():
            self._look_for_executors()
            self._take_ended()
            if self._hosts and most_seconds == START_SECONDS:  # the others may be as slow as the first
                most_seconds = max(ANSWER_SECONDS, time.monotonic() - begun)
            if not self._pending and time.monotonic() - self._news_at > most_seconds:
                break
        self._return_seconds = max(RETURN_SECONDS, 2 * (time.monotonic() - begun))  # starts are slow beside other work
        self._name_hosts()
        self._check_answers()

    def _is_complete(self) -> bool:
        if self._pending or not self._hosts:
            return False
        if self._request.hosts is not None:
            return len(self._ready) >= self._request.hosts
        brokers = self._brokers
        return bool(brokers) and brokers.keys() <= self._owners

    @property
    def _ready(self) -> list[_Host]:
        """The hosts that have the paths, in the order of their brokers."""
        found = [host for host in self._hosts.values() if host.plan is not None and host.plan.error is None]
        return sorted(found, key=lambda host: (min(_plan(host).owners, default=-1), host.name))

    @property
    def _brokers(self) -> dict[int, str]:
        return {broker: at for host in self._ready for broker, at in _plan(host).brokers}

    @property
    def _owners(self) -> set[int]:
        return {owner for host in self._ready for owner in _plan(host).owners}

    def _look_for_executors(self) -> None:
        """Ask executors that are new, and forget those that are gone."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        with plain_errors():
            self._executors = _executors(self._spark)
        for host in self._hosts.values():
            host.executors = {one: cores for one, cores in host.executors.items() if one in self._executors}
        for executor in self._executors.keys() - self._asked:
            self._asked.add(executor)
            self._submit(partial(self._take_place, executor), _look, self._request.paths, [executor])

    def _submit(
        self, take: Callable[[Future[Any]], None], function: Callable[[Any], Any], value: Any, executors: Sequence[str]
    ) -> None:
        """Run a function in a task; `take` gets the outcome, in this thread."""
        self._pending += 1
        future = self._pool.submit(self._jobs.run, function, value, executors)
        future.add_done_callback(lambda ended: self._ended.put((take, ended)))

    def _take_ended(self) -> None:
        """Take the outcomes of tasks that have ended, after a wait for the first one."""
        with suppress(Empty):
            take, future = self._ended.get(timeout=POLL_SECONDS)
            while True:
                self._pending -= 1
                take(future)
                take, future = self._ended.get_nowait()

    def _take_place(self, executor: str, future: Future[Any]) -> None:
        self._news_at = time.monotonic()
        try:
            place, name, version = future.result()
            if version != __version__:
                raise KafkalogError(reason=f"kafkalog {version} is installed there, and {__version__} here")
        except KafkalogError as error:
            self._silent[executor] = error
            return
        host = self._hosts.get(place)
        if host is None:
            host = self._hosts[place] = _Host(name, place)
        if executor in self._executors:
            host.executors[executor] = self._executors[executor][1]
        if host.plan is None:
            self._plan(host)

    def _plan(self, host: _Host) -> None:
        task = _Task(host.place, self._request.paths, self._pickled((self._verb, self._request.metadata)))
        self._submit(partial(self._take_plan, host), _plan_in_task, task, [*host.executors])

    def _take_plan(self, host: _Host, future: Future[Any]) -> None:
        self._news_at = time.monotonic()
        try:
            host.plan = future.result()
        except KafkalogError as error:
            host.plan = HostPlan(error=error)

    def _check_answers(self) -> None:
        """Note which hosts are missing. Raises the first error if no host has the paths, and UsageError."""
        ready, request = self._ready, self._request
        errors = [host.plan.error for host in self._hosts.values() if host.plan is not None and host.plan.error]
        if not ready:
            if not errors and not self._silent:
                raise KafkalogError(reason="no executor of Spark has started: see the master's page for its workers")
            raise (*errors, *self._silent.values())[0]
        if request.hosts is None and not self._brokers:
            reason = "no metadata log on these hosts says which brokers there are: give --hosts N, the number of hosts"
            raise UsageError(reason=reason)
        seen = ", ".join(sorted(host.name for host in ready))
        if not any(_plan(host).items for host in ready):
            raise NothingSelected(reason=f"the options select no partition on {seen}")
        absent = {broker: at for broker, at in self._brokers.items() if broker not in self._owners}
        if request.hosts is not None and len(ready) >= request.hosts:
            absent = {}
        for broker, at in sorted(absent.items()):
            where = f" ({at})" if at else ""
            self.missing.append(HostMissing(reason=f"broker {broker}{where}: no host that answered has its disks"))
        if request.hosts is not None and len(ready) < request.hosts:
            found = f"{counted(len(ready), 'host')} of {request.hosts} answered with the paths: {seen}"
            self.missing.append(HostMissing(reason=found))
        if self.missing:
            self.missing += [
                HostMissing(reason=f"{host.name}: {host.plan.error}")
                for host in self._hosts.values()
                if host.plan is not None and host.plan.error is not None
            ]
            self.missing += [
                HostMissing(reason=f"{self._executors.get(one, ('a host', 0))[0]}: {error}")
                for one, error in self._silent.items()
            ]

    def _name_hosts(self) -> None:
        """Tell hosts of one name apart by their brokers, else by numbers."""
        names = [host.name for host in self._ready]
        for number, host in enumerate(self._ready, 1):
            if names.count(host.name) > 1:
                owners = "-".join(map(str, sorted(_plan(host).owners)))
                host.name = f"{host.name}/broker-{owners}" if owners else f"{host.name}/{number}"

    @property
    def names(self) -> list[str]:
        """The names of the hosts that have the paths."""
        return [host.name for host in self._ready]

    @property
    def notes(self) -> Iterator[HostResult]:
        """The notes of the hosts' plans, and of hosts that have the disks of one broker."""
        seen: dict[int, str] = {}
        for host in self._ready:
            for owner in sorted(_plan(host).owners & seen.keys()):
                text = f"{seen[owner]} has disks of broker {owner} too: they share them, or one has a copy"
                yield HostResult(host.name, Note("shared-disk", text, self._request.paths[0]))
            seen |= dict.fromkeys(_plan(host).owners, host.name)
            yield from (HostResult(host.name, note) for note in _plan(host).notes)

    @property
    def total_bytes(self) -> int:
        """The bytes that all hosts have to read."""
        items = (item for host in self._ready for _, item in _plan(host).items)
        return sum(item.size_bytes for item in items if isinstance(item, Item))

    # -- the work

    def results(self, advance: Advance = do_not_report) -> Iterator[list[HostResult]]:
        """Yield the results about each subject, as soon as all hosts have theirs, in the order of the subjects."""
        hosts = self._working = self._ready
        self._advance = advance
        entries = sorted(
            ((subject, number, item) for number, host in enumerate(hosts) for subject, item in _plan(host).items),
            key=lambda entry: entry[:2],
        )
        for number, host in enumerate(hosts):
            self._share_out(host, [(at, entry[2]) for at, entry in enumerate(entries) if entry[1] == number])
        for _, found in groupby(enumerate(entries), key=lambda pair: pair[1][0]):
            group = [(at, hosts[number]) for at, (_, number, _) in found]
            self._next = group[-1][0]
            self._work_until_there([at for at, _ in group])
            yield [HostResult(host.name, self._results.pop(at)) for at, host in group]
        for host in self._ready:
            if host not in hosts:
                self.missing.append(HostMissing(reason=f"{host.name}: it answered after the work had begun, not done"))

    def answers(self, questions: Mapping[HostPath, Any], answer: Callable[[Any, Advance], Any]) -> dict[HostPath, Any]:
        """Return what `answer` returns on the host of each question, without those of hosts where it fails.

        Call it between results; the other work goes on.
        """
        by_name = {host.name: host for host in self._working}
        run = partial(run_item, answer, _no_answer)
        for key, question in questions.items():
            items: list[tuple[_Key, Item[Any]]] = [(key, Item(question, 0, (key[1],)))]
            by_name[key[0]].chunks.appendleft(_Chunk(run, _no_answer, items, is_question=True))
        self._work_until_there(questions)
        found = {key: self._results.pop(key) for key in questions}
        return {key: result for key, result in found.items() if result is not None}

    def _work_until_there(self, keys: Collection[_Key]) -> None:
        """Hand out work, and take results, until those of the keys are there."""
        while not all(key in self._results for key in keys):
            self._look_for_executors()
            for host in self._working:
                self._give_up_if_lost(host)
                self._start_tasks(host)
            self._take_ended()
            self._advance(0)

    def _share_out(self, host: _Host, items: Sequence[tuple[int, Item[Any] | Known[Any]]]) -> None:
        """Make chunks of about a second of work, or less if cores would get too few."""
        weights = {at: item.size_bytes + ITEM_BYTES for at, item in items if isinstance(item, Item)}
        cores = max(1, sum(host.executors.values()))
        limit = min(TASK_BYTES, sum(weights.values()) / (cores * TASKS_PER_CORE))
        plan = _plan(host)
        chunk, weight = _Chunk(plan.run, plan.failed), 0
        for at, item in items:
            if isinstance(item, Known):
                self._results[at] = item.result
                continue
            chunk.items.append((at, item))
            weight += weights[at]
            if weight >= limit:
                host.chunks.append(chunk)
                chunk, weight = _Chunk(plan.run, plan.failed), 0
        if chunk.items:
            host.chunks.append(chunk)

    def _start_tasks(self, host: _Host) -> None:
        """Hand out chunks: one more than the host works on at a time."""
        most = self._request.jobs or sum(host.executors.values()) + 1
        while host.chunks and host.executors and len(host.running) < most:
            if len(self._results) > MOST_HELD and not self._is_next(host.chunks[0]):
                return
            chunk = host.chunks.popleft()
            host.running.append(chunk)
            pickled = self._pickled((chunk.run, [item for _, item in chunk.items]))
            task = _Task(host.place, self._request.paths, pickled)
            self._submit(partial(self._take_results, host, chunk), _work_in_task, task, [*host.executors])

    def _is_next(self, chunk: _Chunk) -> bool:
        position = chunk.items[0][0]
        return not isinstance(position, int) or position <= self._next

    def _take_results(self, host: _Host, chunk: _Chunk, future: Future[Any]) -> None:
        if chunk.is_over:
            return
        host.running.remove(chunk)
        try:
            results = future.result()
        except KafkalogError as error:  # in every attempt: one item may have ended all of them
            if len(chunk.items) > 1:
                host.chunks.extendleft(replace(chunk, items=[item]) for item in reversed(chunk.items))
            else:
                self._fail(chunk, error)
            return
        if results is None:  # the executor is gone
            host.chunks.appendleft(chunk)
            return
        for (key, item), result in zip(chunk.items, results, strict=True):
            self._results[key] = result
            self._advance(item.size_bytes, f"{host.name}:{item.paths[0]}")

    def _give_up_if_lost(self, host: _Host) -> None:
        """Name the items of a host that has had no executor for a while."""
        if host.executors:
            host.lost_at = None
            return
        now = time.monotonic()
        host.lost_at = host.lost_at or now
        left = [*host.running, *host.chunks]
        if not left or now - host.lost_at < self._return_seconds:
            return
        host.running, host.chunks = [], deque()
        paths = [item.paths[0] for chunk in left for _, item in chunk.items if not chunk.is_question]
        if paths or host.loss is None:
            what = f"; not done: {', '.join(paths)}" if paths else ", not all of its replicas are compared"
            host.loss = HostMissing(reason=f"{host.name}: no executor of Spark is left there{what}")
            self.missing.append(host.loss)
        for chunk in left:
            chunk.is_over = True
            self._fail(chunk, host.loss)

    def _fail(self, chunk: _Chunk, error: KafkalogError) -> None:
        if chunk.failed is None:
            raise error
        for key, item in chunk.items:
            self._results[key] = chunk.failed(item, error)


def _no_answer(_: Item[Any], __: KafkalogError) -> None:
    """Stand for the answer to a question on a host where it fails."""


def _plan(host: _Host) -> HostPlan:
    assert host.plan is not None
    return host.plan


def _executors(spark: SparkSession) -> dict[str, tuple[str, int]]:
    """Return the address and the cores of each living executor by its id: Spark's own programs have no public way."""
    context: Any = spark.sparkContext
    listed = context._jsc.sc().statusStore().executorList(True)
    every = [listed.apply(at) for at in range(listed.size())]
    return {one.id(): (one.hostPort().partition(":")[0], cores) for one in every if (cores := one.totalCores())}


# -- in tasks


def _look(paths: Sequence[str]) -> tuple[Place, str, str]:
    import socket

    return Place.of(paths), socket.gethostname(), __version__


def _plan_in_task(task: _Task) -> HostPlan:
    """Plan the verb. Raises KafkalogError in another place."""
    import pickle

    if Place.of(task.paths) != task.place:
        raise KafkalogError(reason="its executor of Spark has gone, or the paths changed")
    verb, metadata = pickle.loads(task.pickled)
    return plan_on_host(pickle.loads(verb), task.paths, metadata)


def _work_in_task(task: _Task) -> list[Any] | None:
    """Return the results of items; None in another place, where nothing is read."""
    import pickle

    if Place.of(task.paths) != task.place:
        return None
    run, items = pickle.loads(task.pickled)
    return [run(item, do_not_report) for item in items]
