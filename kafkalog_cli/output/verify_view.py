"""How `verify` shows its results as JSON: the objects of the findings, then the object of the target."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kafkalog_cli.ops.verify.finding_kinds import Severity
from kafkalog_cli.ops.verify.partition import Verification
from kafkalog_cli.output.verify_json import FINDING, VERIFICATION, finding_object, verification_object
from kafkalog_cli.output.views import FAILURES, Listener, View

_OF_SEVERITY = {Severity.CORRUPTION: "corruptions", Severity.WARNING: "warnings", Severity.INFO: "infos"}


def verify_view(listener: Listener, *, quiet: bool) -> View[Verification]:
    """Return the view; with `quiet` only warnings and worse are shown. `listener` writes the text and the reports."""
    return View(
        VERIFICATION,
        verification_object,
        lambda _: (),
        ("targets", FAILURES, *_OF_SEVERITY.values(), "batches", "records", "bytes"),
        _counts,
        objects=partial(_objects, quiet=quiet),
        counts_partitions=False,
        listener=listener,
    )


def _objects(result: Verification, *, quiet: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    found = [one for one in result.findings if not quiet or one.severity is not Severity.INFO]
    for one in found:
        yield FINDING, finding_object(one, result)
    if found or not quiet:
        yield VERIFICATION, verification_object(result)


def _counts(result: Verification) -> dict[str, int]:
    of_findings = {name: result.count(severity) for severity, name in _OF_SEVERITY.items()}
    totals = result.totals
    return {"targets": 1, **of_findings, "batches": totals.batches, "records": totals.records, "bytes": totals.bytes}
