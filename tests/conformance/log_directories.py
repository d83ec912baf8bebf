"""The log directories of the fixtures, as they were before the commands of the case."""

from __future__ import annotations

from tests.conformance.rows import PARTITION
from tests.support.archives import FIXTURES, unpack

ARCHIVES = {
    "old-broker-": FIXTURES / "old_releases" / "old_releases.tar.xz",
    "message-sets-": FIXTURES / "message_sets" / "message_sets.tar.xz",
}
SIDECARS = FIXTURES / "sidecars" / "kraft"
STAGES = ("before", "data")
"""Where a case of an archive has the log directory; other cases are a log directory."""


def log_directory_of(case):
    """The log directory of a case of an archive."""
    return next((case / stage for stage in STAGES if (case / stage).is_dir()), case)


def unpack_all(target, corpus):
    """Unpack the other archives below a directory; return the log directories by the name of the case."""
    folders = {"": corpus}
    for prefix, archive in ARCHIVES.items():
        unpack(archive, target / archive.name)
        folders[prefix] = target / archive.name / "corpus"
    found = {"sidecars": SIDECARS}
    for prefix, folder in folders.items():
        for case in sorted(folder.iterdir()):
            root = log_directory_of(case)
            if any(PARTITION.match(path.name) for path in root.iterdir()):
                found[prefix + case.name] = root
    return found
