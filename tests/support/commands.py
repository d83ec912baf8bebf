"""Runs commands in this process, and looks at what they leave: a process of its own would cost each 0.3 s of CPU."""

import io

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment


def kafkalog(*argv, fs=None, **environment):
    """(exit code, stdout, stderr) of a command line, in the Environment that the keywords give."""
    out, err = io.BytesIO(), io.BytesIO()
    if fs is not None:
        environment["fs"] = fs
    code = run([*map(str, argv)], Environment(stdout=out, stderr=err, **environment))
    assert b"internal error" not in err.getvalue(), err.getvalue()
    return code, out.getvalue().decode(), err.getvalue().decode()


def tree(root):
    """Bytes, mode and time of the files below a directory, by path, but what kafkalog keeps beside them."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and ".kafkalog" not in path.parts and path.name != ".lock"
    }
