"""Commands on the disks of all hosts of a Spark cluster (`--each-host`)."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from kafkalog_cli.cli.engine import spark_session, spark_settings
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.options import Spark
from kafkalog_cli.errors import ExitCode, HostMissing, error_on
from kafkalog_cli.ops.call.call import Call, Outcome, Run
from kafkalog_cli.ops.call.host_plan import HostsRequest
from kafkalog_cli.ops.call.options import VerbOptions

if TYPE_CHECKING:
    from kafkalog_cli.spark.each_host import Hosts


def without_observer(options: VerbOptions) -> VerbOptions:
    """Return the options as they go to other hosts."""
    return cast(VerbOptions, {name: value for name, value in options.items() if name != "observer"})


@contextmanager
def hosts_of(environment: Environment, spark: Spark, request: HostsRequest, *, as_json: bool) -> "Iterator[Hosts]":
    """Yield the hosts of these options, with what a verb has to do there. Raises as `Hosts.find`."""
    from kafkalog_cli.output.progress import Waiting
    from kafkalog_cli.spark.starting import need_pyspark

    need_pyspark()
    from kafkalog_cli.spark.each_host import SETTINGS, each_host

    settings = {**SETTINGS, **spark_settings(spark.conf)}
    with each_host(partial(spark_session, environment, spark.master, settings, as_json=as_json), request) as hosts:
        with Waiting(environment.stderr, "asking the hosts", is_shown=not as_json):
            hosts.find()
        yield hosts


Together = Callable[[Sequence[tuple[str, Outcome]], "Hosts"], Iterable[Outcome]]
"""Returns what the outcomes of several hosts about one subject say together."""


def report_hosts(call: Call, hosts: "Hosts", together: Together = lambda _, __: ()) -> Run[Any]:
    """Report the outcomes of a verb on all hosts, and the hosts that are missing; the exit code is 5 if there are any.

    The results get the names of their hosts. What they say together comes before them.
    """
    for host, note in hosts.notes:
        call.observer.report(note._replace(host=host))
    for error in hosts.missing:
        call.observer.fail(error)
    outcome = call.report_each(_outcomes(call, hosts, together))
    return replace(outcome, exit_code=ExitCode.PARTIAL) if hosts.missing else outcome


def _outcomes(call: Call, hosts: "Hosts", together: Together) -> Generator[Outcome, None, None]:
    progress, reported = call.observer.progress, {*map(id, hosts.missing)}
    progress.begin(call.verb, hosts.total_bytes)
    for results in hosts.results(progress.advance):
        yield from together(results, hosts)
        for host, outcome in results:
            reported.add(id(outcome.error))
            yield _of_host(host, outcome)
    yield from (Outcome("", error=error) for error in hosts.missing if id(error) not in reported)


def _of_host(host: str, outcome: Outcome) -> Outcome:
    result, error = outcome.result, outcome.error
    if error is not None and not isinstance(error, HostMissing):  # which is reported once
        error = error_on(host, error)
    notes = [note._replace(host=host) for note in outcome.notes]
    return outcome._replace(result=result and replace(result, host=host), error=error, notes=notes)
