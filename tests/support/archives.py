"""The archives of tests/fixtures. No module of tests imports conftest: there are several, and the name means the last one loaded."""

import tarfile
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"


def unpack(archive, target):
    """Unpack an archive of ours."""
    with tarfile.open(archive) as tar:
        tar.extractall(target, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
