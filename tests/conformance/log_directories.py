"""The log directories of the fixtures, as they were before the commands of the case."""

from __future__ import annotations

from tests.conformance.rows import PARTITION
from tests.support.archives import CORPUS, FIXTURES, unpack

ARCHIVES = {
    "": CORPUS,
    "old-broker-": FIXTURES / "old_brokers" / "brokers.tar.xz",
    "message-sets-": FIXTURES / "message_sets" / "message_sets.tar.xz",
}
SIDECARS = FIXTURES / "sidecars" / "kraft"
STAGES = ("before", "data")
"""Where a case of an archive has the log directory; other cases are a log directory."""


def unpack_all(target):
    """Unpack the archives below a directory; return the log directories by the name of the case."""
    found = {"sidecars": SIDECARS}
    for prefix, archive in ARCHIVES.items():
        unpack(archive, target / archive.name)
        for case in sorted((target / archive.name / "corpus").iterdir()):
            root = next((case / stage for stage in STAGES if (case / stage).is_dir()), case)
            if any(PARTITION.match(path.name) for path in root.iterdir()):
                found[prefix + case.name] = root
    return found
