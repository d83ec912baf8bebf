"""The JSON output of doctor: the log directory, the steps of the next start, findings, lines, next commands."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.doctor.broker_messages import Recognised
from kafkalog_cli.ops.doctor.commands import Effect, NextCommand
from kafkalog_cli.ops.doctor.examination import Examination
from kafkalog_cli.ops.doctor.start import StartAction, StartStep
from kafkalog_cli.ops.listing.root import Shutdown
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.records import Count, ObjectKind, PathText, lower_names
from kafkalog_cli.output.verify_view import FINDING, finding_object


class ExaminationObject(TypedDict):
    """A log directory that doctor has examined."""

    path: PathText
    shutdown: Annotated[Shutdown, "how its broker stopped"]
    pid: Annotated[int | None, "of the process that holds the lock"]
    cluster_id: Annotated[str | None, "from meta.properties"]
    node_id: int | None
    partitions: Count


class StartStepObject(TypedDict):
    """A step of the broker's next start."""

    number: Annotated[int, "the place in the broker's order, from 1"]
    action: StartAction
    path: Annotated[PathText, "the file or directory"]
    message: str
    loses_data: Annotated[bool, "whether bytes of logs are removed"]
    ends_start: Annotated[bool, "whether the broker does not start, or starts without the log directory"]


class BrokerLineObject(TypedDict):
    """A line of a broker's log that was recognised in the text."""

    slug: Annotated[str, "the name of its page in docs/broker-messages"]
    line: str
    text: Annotated[str, "the text of Kafka, {} for each value"]
    exact: Annotated[bool, "false: only most words of the line are those of the text"]
    meaning: str
    risk: str


class NextCommandObject(TypedDict):
    """A command to run next."""

    number: Annotated[int, "the place in the list, from 1; the safest commands come first"]
    argv: Annotated[list[str] | None, "the words of the command; null for a step by hand, which `why` explains"]
    why: str
    effect: Annotated[str, lower_names(*Effect), "what it changes; copies: it writes only new files elsewhere"]
    reversible: Annotated[bool, "whether nothing is changed, or the change can be undone"]
    undo: Annotated[str | None, "how the change is undone"]
    findings: Annotated[Count, "findings that name the command"]


EXAMINATION = ObjectKind("kafkalog.examination/1", ExaminationObject)
START_STEP = ObjectKind("kafkalog.start-step/1", StartStepObject)
BROKER_LINE = ObjectKind("kafkalog.broker-line/1", BrokerLineObject)
NEXT_COMMAND = ObjectKind("kafkalog.next-command/1", NextCommandObject)


def write_objects(lines: JsonLines, found: Examination) -> None:
    """Write all objects and the summary."""
    lines.object(EXAMINATION, _examination_object(found))
    for number, step in enumerate(found.steps, 1):
        lines.object(START_STEP, _step_object(number, step))
    counts = dict.fromkeys(Severity, 0)
    for verification in found.verifications:
        for finding in verification.findings:
            counts[finding.severity] += 1
            lines.object(FINDING, finding_object(finding, verification))
    for line in found.lines:
        lines.object(BROKER_LINE, _line_object(line))
    for number, command in enumerate(found.commands, 1):
        lines.object(NEXT_COMMAND, _command_object(number, command))
    lines.summary(
        found.exit_code,
        steps=len(found.steps),
        corruptions=counts[Severity.CORRUPTION],
        warnings=counts[Severity.WARNING],
        infos=counts[Severity.INFO],
        commands=len(found.commands),
    )


def _examination_object(found: Examination) -> ExaminationObject:
    root = found.root
    return {
        "path": PathText(root.path),
        "shutdown": root.shutdown,
        "pid": None if root.lock_owner is None else root.lock_owner.pid,
        "cluster_id": None if root.meta is None else root.meta.cluster_id,
        "node_id": None if root.meta is None else root.meta.node_id,
        "partitions": found.partitions,
    }


def _step_object(number: int, step: StartStep) -> StartStepObject:
    return {
        "number": number,
        "action": step.action,
        "path": PathText(step.path),
        "message": step.message,
        "loses_data": step.loses_data,
        "ends_start": step.ends_start,
    }


def _line_object(found: Recognised) -> BrokerLineObject:
    return {
        "slug": found.message.slug,
        "line": found.line,
        "text": found.text.text,
        "exact": found.is_exact,
        "meaning": found.message.meaning,
        "risk": found.message.at_stake,
    }


def _command_object(number: int, command: NextCommand) -> NextCommandObject:
    return {
        "number": number,
        "argv": list(command.argv) or None,
        "why": command.why,
        "effect": command.effect.name.lower(),
        "reversible": command.effect.is_reversible,
        "undo": command.undo or None,
        "findings": command.findings,
    }
