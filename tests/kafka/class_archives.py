"""Archives of the classes that a Java program loads: with its archive a broker starts and stops for 2.4 s of CPU instead of 5.2.

The first run of a program on a machine writes its archive when it ends. Java itself rejects an archive that is not complete, or that
is of another Java; it then loads the classes from the jars.
"""

import shutil
import zlib
from pathlib import Path

SILENT = ["-Xlog:disable", "-Xlog:all=error:stderr"]
"""Java would say on stdout which classes an archive cannot hold, and that it rejects an archive."""


def archived(program, class_path, *, writes=True):
    """Options for a JVM with the archive of `program`. A JVM that is halted, or loads few classes, writes no archive."""
    java = shutil.which("java")
    first = Path(class_path.partition(":")[0])
    if java is None or not first.name.startswith("ours-"):  # the bench measures Kafka as it is
        return []
    binary = Path(java).resolve()
    made_of = f"{class_path} {binary} {binary.stat().st_mtime_ns}"
    archive = first.with_name(f"{program}-{zlib.crc32(made_of.encode()):08x}.jsa")
    if archive.exists():
        return [*SILENT, f"-XX:SharedArchiveFile={archive}"]
    return [*SILENT, f"-XX:ArchiveClassesAtExit={archive}"] if writes else []
