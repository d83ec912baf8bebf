"""Which modules may touch the disk, and which may ask for changes. The layers are held by import-linter (pyproject.toml)."""

import ast
import gc
import re
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "kafkalog_cli"
FILES = sorted(PACKAGE.rglob("*.py"))

DISK_CALLS = re.compile(
    "open|unlink|rmdir|mkdir|makedirs|touch|renames?|symlink|symlink_to|hardlink_to|fsync|ftruncate|rmtree|mkdtemp"
    "|read_bytes|read_text|write_bytes|write_text|listdir|scandir|iterdir|rglob|f?chmod|[fl]?chown|utime|copyfile"
    "|setxattr|removexattr|lockf|flock|pwritev?"
)
DISK_CALLS_OF_OS = re.compile("replace|remove|removedirs|truncate|link|stat|write|copy2?|move|mknod|mkfifo")
"""Names that methods of strings, lists, arrays and streams have too."""
MAY_TOUCH_DISK = {
    "format/native.py": "reads the C sources of the package, to see whether the library is of them",
    "format/protocol/messages.py": "reads the message definitions of the package",
    "cli/process.py": "standard descriptors: the null device where one is closed",
    "disk/fs.py": "the door",
    "disk/live_logs.py": "the names of a directory's logs, for pages in memory and for the end of the active segment",
    "disk/directories.py": "the descriptors of directories, by which the door reaches what lies below",
    "disk/posix_lock.py": "descriptors that locks hang on",
    "disk/ownership.py": "gives new files to the owner of their directory",
    "spark/starting.py": "the cache of compiled code, which is no log directory",
    "disk/cache.py": "the directory for caches, which is no log directory",
    "output/stream.py": "writes to the standard streams",
    "cli/app.py": "points the closed standard output at the null device",
    "ops/call/host_plan.py": "reads the id of the machine's start, to tell hosts apart",
    "ops/map_each.py": "pipes between processes",
    "ops/demo.py": "reads an archive of the package itself, through importlib.resources",
    "ops/check/doctor/broker_pages.py": "reads pages of the package itself, through importlib.resources",
    "output/inspect_page/__init__.py": "reads files of the package itself, through importlib.resources",
    "format/internal_topics/schema.py": "reads a file of the package itself, through importlib.resources",
}

MAY_ASK_FOR_CHANGES = {
    "ops/check/recover/salvage.py": "writes into directories that it makes, outside of any log directory",
    "ops/demo.py": "makes a log directory of its own",
    "ops/move/metadump/copying.py": "writes into a directory that it makes, outside of any log directory",
    "ops/move/metadump/files.py": "writes the files of that directory",
}
THE_DOORS_CHANGES = {
    *("create", "open_write", "rename", "link", "unlink", "make_directory", "remove_directory", "sync_directory"),
    *("set_attributes", "lock"),
}


def name_of(path):
    return str(path.relative_to(PACKAGE))


@cache
def tree_of(path):
    return ast.parse(path.read_text())


@cache
def nodes_of(tree):
    return list(ast.walk(tree))


@pytest.fixture(scope="module", autouse=True)
def trees_are_no_garbage():
    """Python would look at all nodes again and again, also in the tests that follow."""
    gc.disable()
    yield
    for cached in (tree_of, nodes_of, method_calls):
        cached.cache_clear()
    gc.enable()


@cache
def method_calls(tree):
    """(call, what the method is of: `os`, `self._fs`, …) of every call of a method or of a module's function."""
    return [
        (node, ast.unparse(node.func.value))
        for node in nodes_of(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]


def is_door(receiver):
    return receiver.rpartition(".")[2].lstrip("_") in ("fs", "filesystem")


def disk_calls(tree):
    """Calls that read, list or change files, but for those of the door."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield f"open, line {node.lineno}"
    for node, receiver in method_calls(tree):
        name, of_os = node.func.attr, receiver in ("os", "shutil")
        if not is_door(receiver) and (
            DISK_CALLS.fullmatch(name) or (of_os and (DISK_CALLS_OF_OS.fullmatch(name) or name == "open"))
        ):
            yield f"{name}, line {node.lineno}"


def changes_through_the_door(tree):
    for node, receiver in method_calls(tree):
        if is_door(receiver) and node.func.attr in THE_DOORS_CHANGES:
            yield f"{node.func.attr}, line {node.lineno}"


def found_by(rule):
    """The files in which a rule finds something, and what it finds."""
    found = {name_of(path): rule(tree_of(path)) for path in FILES}
    return {name: each for name, breaks in found.items() if (each := list(breaks))}


def test_only_the_door_touches_the_disk():
    assert set(found_by(disk_calls)) == set(MAY_TOUCH_DISK)


def test_the_layers_that_ask_the_door_for_changes():
    """Verbs decide, and the journal makes the changes: a change that passes it by cannot be undone."""
    asking = {name for name in found_by(changes_through_the_door) if not name.startswith(("disk/", "change/"))}
    assert asking == set(MAY_ASK_FOR_CHANGES)


def test_the_door_has_no_other_changes():
    """The list that the rule above goes by is the disk's."""
    disk = next(
        node
        for node in tree_of(PACKAGE / "disk/fs.py").body
        if isinstance(node, ast.ClassDef) and node.name == "WritableFilesystem"
    )
    methods = {node.name for node in disk.body if isinstance(node, ast.FunctionDef) and node.name != "__init__"}
    reading = {"open_read", "status", "list_directory"}
    assert methods == reading | THE_DOORS_CHANGES | {"attributes", "room", "hold_directory"}


def test_disk_calls_are_recognised():
    bad = ast.parse("with open(x) as f: Path(y).unlink()\nos.replace(a, b)")
    assert set(disk_calls(bad)) == {"open, line 1", "unlink, line 1", "replace, line 2"}
    assert list(disk_calls(ast.parse("text.replace(a, b); stream.write(c); self._fs.unlink(d)"))) == []
    assert list(changes_through_the_door(ast.parse("self._fs.unlink(d); fs.status(e); text.create(f)"))) == [
        "unlink, line 1"
    ]
