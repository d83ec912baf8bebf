"""Run tests with the lowest versions of dependencies that pyproject.toml allows: python tests/oldest_versions.py FOLDER [PYTEST ARGUMENTS]

They are installed into FOLDER, beside those of this Python, which has the extra `dev`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r'^ +"([a-z0-9-]+)>=([0-9.]+)[,0-9.<]*(?:; [^"]*)?",$', re.MULTILINE)
TESTS = ["tests/unit", "tests/library", "tests/cli/test_help.py", "tests/cli/test_read.py"]
TESTS += [
    "tests/unit/test_startup.py",
    "tests/cli/test_surroundings.py",
    "tests/cli/test_old_releases.py",
    "tests/cli/test_old_brokers.py",
]


def lowest(text):
    """NAME==VERSION of each dependency, and of pyarrow; extras besides are of other packages' making."""
    dependencies = text.split("\ndependencies = [\n")[1].split("\n]\n")[0]
    arrow = re.search(r'^arrow = \["pyarrow>=([0-9.]+)"\]$', text, re.MULTILINE)
    found = [f"{name}=={version}" for name, version in REQUIREMENT.findall(dependencies)]
    assert len(found) == dependencies.count('"') // 2
    return [*found, f"pyarrow=={arrow[1]}"]


def main():
    folder, *arguments = sys.argv[1:]
    wanted = lowest((ROOT / "pyproject.toml").read_text())
    print(*wanted)
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", folder, *wanted], check=True)
    environment = {**os.environ, "PYTHONPATH": f"{Path(folder).resolve()}:{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(arguments or TESTS)]
    sys.exit(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
