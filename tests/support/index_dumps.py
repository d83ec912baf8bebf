"""What dump-index prints of files in memory: a report for each file, with its entries."""

from types import SimpleNamespace

from tests.support.commands import json_of
from tests.support.faulty_fs import FaultyFilesystem


def dumped(files, path):
    """The reports by path; `entries` have `verdict` and `detail`, `notes` have `message` and `exit_code`."""
    _, out, err = json_of("dump-index", path, fs=FaultyFilesystem(files))
    assert err == []
    found, entries = {}, []
    for one in out:
        if one["type"] == "index-file":
            notes = [SimpleNamespace(**note) for note in one["notes"]]
            found[one["path"]] = SimpleNamespace(**one | {"entries": entries, "notes": notes})
            entries = []
        elif one["type"] != "summary":
            entries.append(SimpleNamespace(**one))
    return found


def verdicts(report):
    return [entry.verdict for entry in report.entries]
