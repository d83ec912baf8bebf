"""Verifies paths by the command, and gives the findings of each partition and log directory together."""

from types import SimpleNamespace

from tests.support.commands import json_of


def verified(paths, level="normal", *, fs=None, now_ms=None, metadata=None, broker_config=None, config=None, more=()):
    """The verifications in their order, each with its findings; then the errors of what cannot be verified."""
    options = [word for name, value in (config or {}).items() for word in ("--config", f"{name}={value}")]
    for name, value in (("--now", now_ms), ("--metadata", metadata), ("--broker-config", broker_config)):
        options += [] if value is None else [name, value]
    _, out, err = json_of("verify", *paths, "--level", level, *options, *more, fs=fs)
    found, findings = [], []
    for result in out:
        if result["type"] == "finding":
            findings.append(SimpleNamespace(**result))
        elif result["type"] == "verification":
            found.append(SimpleNamespace(**result, findings=findings))
            findings = []
    assert findings == []
    return found + [SimpleNamespace(**error) for error in err if error["type"] == "error"]


def errors_of(results):
    return [result for result in results if result.type == "error"]
