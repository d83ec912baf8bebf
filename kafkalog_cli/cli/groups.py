"""Groups of options that commands share: each is declared once, and a command takes a group as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from kafkalog_cli.cli.options import (
    AssumeOffline,
    BrokerConfigOption,
    ConfigOption,
    DryRun,
    Format,
    IoBytesPerS,
    Jobs,
    MetadataOption,
    Now,
    OutputFormat,
    PartitionOption,
    Quiet,
    TimeBudget,
    TopicOption,
    TopicPatternOption,
    Wait,
    now_of,
    pace_of,
    selection_of,
)
from kafkalog_cli.cli.spark_options import DEFAULT_MASTER, Conf, EngineName, EngineOption, Master, engine_of

if TYPE_CHECKING:
    from kafkalog_cli.actions.session.options import SessionOptions
    from kafkalog_cli.cli.environment import Environment


@dataclass(frozen=True, slots=True)
class Topics:
    """The selected topics and partitions."""

    topic: TopicOption = None
    topic_pattern: TopicPatternOption = None
    partition: PartitionOption = None


@dataclass(frozen=True, slots=True)
class OneTopic:
    """The selection for a command on one partition, or on the partitions of one topic."""

    topic: TopicOption = None
    partition: PartitionOption = None


@dataclass(frozen=True, slots=True)
class SettingSources:
    """The sources of topic and broker settings."""

    config: ConfigOption = None
    broker_config: BrokerConfigOption = None
    metadata: MetadataOption = None


@dataclass(frozen=True, slots=True)
class Safety:
    """The clock, dry runs and locks."""

    now: Now = None
    dry_run: DryRun = False
    wait: Wait = 0
    assume_offline: AssumeOffline = False


@dataclass(frozen=True, slots=True)
class Pacing:
    """Limits of time and load."""

    jobs: Jobs = 0
    time_budget: TimeBudget = None
    io_bytes_per_s: IoBytesPerS = None


@dataclass(frozen=True, slots=True)
class Spark:
    """Whether tasks of Spark do the work."""

    engine: EngineOption = EngineName.LOCAL
    master: Master = DEFAULT_MASTER
    conf: Conf = None


@dataclass(frozen=True, slots=True)
class Printing:
    """How results are printed."""

    quiet: Quiet = False
    output: Format = OutputFormat.TEXT


def grouped(function: Callable[..., int]) -> Callable[..., int]:
    """Return a command for typer, in which each parameter whose type is a group becomes the options of that group."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, type[Any]] = {}
    options: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        kind = parameter.annotation
        if is_dataclass(kind) and isinstance(kind, type):
            groups[name] = kind
            types = inspect.get_annotations(kind, eval_str=True)
            options += [_option(one.name, types[one.name], one.default) for one in fields(kind)]
        else:
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(function)
    def command(**values: Any) -> int:
        made = {name: kind(**{one.name: values.pop(one.name) for one in fields(kind)}) for name, kind in groups.items()}
        return function(**values, **made)

    command.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in options} | {"return": int}
    return command


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def session_options(  # noqa: PLR0913
    environment: Environment,
    topics: Topics | OneTopic,
    safety: Safety,
    *,
    settings: SettingSources = SettingSources(),
    pacing: Pacing | None = None,
    spark: Spark = Spark(),
    single_replica: bool = False,
) -> SessionOptions:
    """Return the session options for these groups; `pacing` None: one partition at a time. Raises UsageError."""
    from kafkalog_cli.actions.selection import Selection
    from kafkalog_cli.actions.session.options import Pace, SessionOptions

    pattern = topics.topic_pattern if isinstance(topics, Topics) else None
    jobs = 0 if pacing is None else pacing.jobs
    limit = None if pacing is None else pacing.io_bytes_per_s
    return SessionOptions(
        selection=selection_of(topics.topic, topics.partition, pattern) or Selection(),
        now_ms=None if safety.now is None else now_of(environment, safety.now),
        dry_run=safety.dry_run,
        wait_seconds=safety.wait,
        assume_offline=safety.assume_offline,
        single_replica=single_replica,
        config=settings.config or (),
        broker_config=settings.broker_config,
        metadata=settings.metadata,
        pace=Pace() if pacing is None else pace_of(jobs, pacing.time_budget, limit),
        engine=engine_of(
            *(spark.engine, spark.master, spark.conf, jobs),
            changes=True, io_bytes_per_s=limit, assume_offline=safety.assume_offline,
        ),
    )  # fmt: skip
