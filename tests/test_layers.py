"""The layers of the house: who may import whom, who may touch the disk, how large a file and a function may be."""

import ast
import gc
import os
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kafkalog_cli"
FILES = sorted(PACKAGE.rglob("*.py"))

ORDER = ("errors", "format", "disk", "log", "change", "broker", "ops")
"""Each of these may import those before it. What shows or ships results comes after, each with its own list."""
BENEATH = {layer: set(ORDER[:place]) for place, layer in enumerate(ORDER)} | {
    "output": set(ORDER),
    "spark": set(ORDER),
    "library": {*ORDER, "output"},
    "cli": {*ORDER, "output", "spark"},
}

DISK_CALLS = re.compile(
    "open|unlink|rmdir|mkdir|makedirs|touch|renames?|symlink|symlink_to|hardlink_to|fsync|ftruncate|rmtree|mkdtemp"
    "|read_bytes|read_text|write_bytes|write_text|listdir|scandir|iterdir|rglob|chmod|chown|utime|copyfile"
)
DISK_CALLS_OF_OS = re.compile("replace|remove|truncate|link|stat|write|pwrite|copy2?|move")
"""Names that methods of strings, lists, arrays and streams have too."""
MAY_TOUCH_DISK = {
    "format/protocol/messages.py": "reads the message definitions of the package",
    "__main__.py": "standard descriptors: the version, and the null device where one is closed",
    "disk/fs.py": "the door",
    "disk/fs_changes.py": "its changing half",
    "disk/followed_links.py": "opens what a link leads to",
    "disk/live_logs.py": "the names of a directory's logs, for pages in memory and for the end of the active segment",
    "disk/held_directories.py": "the descriptors of directories, by which both halves reach what lies below",
    "disk/posix_lock.py": "descriptors that locks hang on",
    "spark/starting.py": "the cache of compiled code, which is no log directory",
    "disk/kernels.py": "the cache of compiled kernels, which is no log directory",
    "cli/app.py": "points the closed standard output at the null device",
    "ops/doctor/broker_pages.py": "reads pages of the package itself, through importlib.resources",
    "output/inspect_page/__init__.py": "reads files of the package itself, through importlib.resources",
    "format/internal_topics/schema.py": "reads a file of the package itself, through importlib.resources",
}

CHANGING_CALLS = re.compile(
    "unlink|rmdir|mkdir|makedirs|touch|renames?|symlink|symlink_to|hardlink_to|fsync|ftruncate|rmtree|mkdtemp"
    "|write_bytes|write_text|chmod|fchmod|chown|fchown|lchown|utime|copyfile|setxattr|removexattr|lockf|flock|pwritev?"
)
CHANGING_CALLS_OF_OS = re.compile("replace|remove|truncate|link|write|copy2?|move|mknod|mkfifo|removedirs")
MAY_CHANGE_THE_DISK = {
    "disk/fs_changes.py": "the only way into a log directory",
    "disk/followed_links.py": "opens what a link leads to",
    "disk/posix_lock.py": "locks",
    "spark/starting.py": "the cache of compiled code, which is no log directory",
    "disk/kernels.py": "the cache of compiled kernels, which is no log directory",
    "__main__.py": "prints the version to a descriptor, and opens the null device where one is closed",
}
MAY_ASK_FOR_CHANGES = {
    "ops/serve/committed.py": "writes the file of --commit-to, outside of logs",
    "ops/recover/salvage.py": "writes into directories that it makes, outside of any log directory",
    "ops/demo.py": "makes a log directory of its own",
    "ops/metadump/copying.py": "writes into a directory that it makes, outside of any log directory",
    "ops/metadump/files.py": "writes the files of that directory",
}
THE_DOORS_CHANGES = {
    *("create", "open_write", "rename", "link", "unlink", "make_directory", "remove_directory", "sync_directory"),
    *("set_attributes", "lock"),
}

LIBRARIES = {
    "typer": lambda name: name.startswith("cli/"),
    "click": lambda name: name.startswith("cli/"),
    "rich": lambda name: name.startswith("output/"),
    "pyspark": lambda name: name.startswith("spark/"),
    "confluent_kafka": lambda name: name == "ops/replay/kafka_cluster.py",
    "numba": lambda name: "/kernels/" in name,
    "llvmlite": lambda name: "/kernels/" in name,
}

LARGE_FUNCTIONS = {
    "cli/compact.py:compact": "declares its options, one a line",
}
MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_FILE = 450


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


def imports(tree):
    """Modules that a file imports anywhere, but for those that only types need."""
    skipped = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skipped.update(id(child) for child in ast.walk(node))
    for node in nodes_of(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "kafkalog_cli" and parts[1] in BENEATH else None


def imports_upward(name, tree):
    """Layers above or beside its own that a file imports."""
    own = name.removesuffix(".py").split("/")[0]
    return {other for other in map(layer, imports(tree)) if other} - BENEATH.get(own, set(BENEATH)) - {own}


def libraries_elsewhere(name, tree):
    """Libraries that a file imports though they belong to another layer."""
    found = {module.partition(".")[0] for module in imports(tree)}
    return {library for library in found if library in LIBRARIES and not LIBRARIES[library](name)}


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


def is_opened_to_read(call):
    """Whether an `os.open` has no flag, and an `open` no mode, that lets it write."""
    text = ast.unparse(call)
    modes = [part.value for part in call.args[1:2] if isinstance(part, ast.Constant)]
    modes += [keyword.value.value for keyword in call.keywords if keyword.arg == "mode"]
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "os":
        return "O_RDONLY" in text and "O_CREAT" not in text
    return not any(set("wax+") & set(mode) for mode in modes)


def changing_calls(tree):
    """Calls that change files past the door; `open` in a mode that may write is one."""
    for node in nodes_of(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "open" and not is_opened_to_read(node):
            yield f"open, line {node.lineno}"
    for node, receiver in method_calls(tree):
        name, of_os = node.func.attr, receiver in ("os", "shutil")
        if is_door(receiver):
            continue
        if CHANGING_CALLS.fullmatch(name) or (of_os and CHANGING_CALLS_OF_OS.fullmatch(name)):
            yield f"{name}, line {node.lineno}"
        elif name == "open" and of_os and not is_opened_to_read(node) and "devnull" not in ast.unparse(node):
            yield f"open, line {node.lineno}"


def changes_through_the_door(tree):
    for node, receiver in method_calls(tree):
        if is_door(receiver) and node.func.attr in THE_DOORS_CHANGES:
            yield f"{node.func.attr}, line {node.lineno}"


def large_functions(name, tree):
    for node in nodes_of(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.end_lineno is None:
            continue
        if node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION:
            yield f"{name}:{node.name}"


def found_by(rule, *arguments):
    """The files in which a rule finds something, and what it finds; `arguments` are what it takes before the tree."""
    found = {name_of(path): rule(*(each(path) for each in arguments), tree_of(path)) for path in FILES}
    return {name: each for name, breaks in found.items() if (each := list(breaks))}


def test_nobody_imports_upward_or_sideways():
    assert found_by(imports_upward, name_of) == {}


def imports_by_module():
    """Return the modules of ours that each module imports at its start, and those that it imports in functions only."""
    names = {name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in FILES}
    outer, inner = {}, {}
    for name, path in names.items():
        nodes = tree_of(path).body
        start = ast.Module([node for node in nodes if not isinstance(node, (ast.FunctionDef, ast.ClassDef))], [])
        found = ({one.removeprefix("kafkalog_cli.") for one in imports(tree)} for tree in (start, tree_of(path)))
        outer[name], everything = (one & set(names) - {name} for one in found)
        inner[name] = everything - outer[name]
    return outer, inner


def reached_from(outer, module):
    """The modules that are imported when `module` is."""
    reached, waiting = set(), [*outer.get(module, ())]
    while waiting:
        reached.add(here := waiting.pop())
        waiting += outer.get(here, set()) - reached
    return reached


def imports_back(outer, inner):
    """Pairs of modules of which the first imports the second in a function, and the second leads back to the first."""
    return {
        (module, other)
        for module, imported in inner.items()
        for other in imported
        if module in reached_from(outer, other)
    }


def imports_that_defer_nothing(outer, inner):
    """Pairs of modules of which the first imports the second in a function, though it is imported at the start anyway."""
    return {(module, other) for module, imported in inner.items() for other in imported & reached_from(outer, module)}


def test_files_do_not_import_each_other():
    """An import in a function is for what is seldom needed, not for a circle."""
    assert imports_back(*imports_by_module()) == set()
    assert imports_back({"b": {"c"}, "c": {"a"}}, {"a": {"b", "d"}}) == {("a", "b")}


def test_an_import_in_a_function_defers_something():
    """What is imported at the start anyway, by another module, is imported at the start."""
    assert imports_that_defer_nothing(*imports_by_module()) == set()
    assert imports_that_defer_nothing({"a": {"b"}, "b": {"c"}}, {"a": {"c", "d"}}) == {("a", "c")}


def test_every_folder_is_a_layer():
    folders = {path.relative_to(PACKAGE).parts[0] for path in FILES if path.parent != PACKAGE}
    assert folders <= set(BENEATH)
    assert {path.stem for path in FILES if path.parent == PACKAGE} == {"__init__", "__main__", "errors"}


def test_libraries_stay_in_their_layer():
    assert found_by(libraries_elsewhere, name_of) == {}


def test_only_the_door_touches_the_disk():
    assert set(found_by(disk_calls)) == set(MAY_TOUCH_DISK)


def test_only_the_door_changes_the_disk():
    assert set(found_by(changing_calls)) == set(MAY_CHANGE_THE_DISK)


def test_the_layers_that_ask_the_door_for_changes():
    """Verbs decide, and the journal makes the changes: a change that passes it by cannot be undone."""
    asking = {name for name in found_by(changes_through_the_door) if not name.startswith(("disk/", "change/"))}
    assert asking == set(MAY_ASK_FOR_CHANGES)


def test_the_door_has_no_other_changes():
    """The list that the rule above goes by is the protocol's."""
    protocol = next(
        node
        for node in tree_of(PACKAGE / "disk/fs_changes.py").body
        if isinstance(node, ast.ClassDef) and node.name == "FilesystemChanges"
    )
    methods = {node.name for node in protocol.body if isinstance(node, ast.FunctionDef)}
    assert methods == THE_DOORS_CHANGES | {"attributes", "room", "hold_directory"}


FORMAT_MAY_IMPORT = {
    "format/surroundings.py": ({"os"}, "hides variables of packages while they are loaded"),
    "format/kernels/native.py": ({"sys"}, "asks whether Numba is loaded"),
}


def test_format_knows_no_files_clock_or_environment():
    forbidden = {"os", "pathlib", "time", "datetime", "logging", "sys", "shutil", "tempfile", "subprocess", "mmap"}
    for path in (PACKAGE / "format").rglob("*.py"):
        allowed, _why = FORMAT_MAY_IMPORT.get(name_of(path), (set(), ""))
        found = forbidden & {module.partition(".")[0] for module in imports(tree_of(path))}
        assert found == allowed, name_of(path)


def test_functions_fit_a_screen_and_files_have_one_subject():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= MOST_LINES_OF_A_FILE, name_of(path)
    assert {found for path in FILES for found in large_functions(name_of(path), tree_of(path))} == set(LARGE_FUNCTIONS)


def test_the_rules_bite():
    bad = ast.parse(
        "import rich.table\nfrom kafkalog_cli.cli import app\nwith open(x) as f: Path(y).unlink()\nos.replace(a, b)"
    )
    assert imports_upward("ops/verify/verify.py", bad) == {"cli"}
    assert imports_upward("spark/source.py", bad) == {"cli"}
    assert imports_upward("cli/ls.py", bad) == set()
    assert libraries_elsewhere("ops/verify/verify.py", bad) == {"rich"}
    assert set(disk_calls(bad)) == {"open, line 3", "unlink, line 3", "replace, line 4"}
    lines = "def long():\n" + "    pass\n" * MOST_LINES_OF_A_FUNCTION
    assert list(large_functions("a.py", ast.parse(lines))) == ["a.py:long"]
    assert list(disk_calls(ast.parse("text.replace(a, b); stream.write(c); self._fs.unlink(d)"))) == []
    assert list(changes_through_the_door(ast.parse("self._fs.unlink(d); fs.status(e); text.create(f)"))) == [
        "unlink, line 1"
    ]
    writes = ("os.open(p, os.O_RDWR)", "os.open(p, os.O_RDONLY | os.O_CREAT)", "open(p, 'ab')", "open(p, mode='r+')")
    writes += ("os.pwrite(d, b, 0)", "Path(p).write_bytes(b)", "os.replace(a, b)", "fcntl.lockf(d, 1)")
    reads = ("os.open(p, os.O_RDONLY | os.O_CLOEXEC)", "open(p)", "open(p, 'rb')", "text.replace(a, b)", "fs.unlink(p)")
    assert [len(list(changing_calls(ast.parse(text)))) for text in writes] == [1] * len(writes)
    assert [len(list(changing_calls(ast.parse(text)))) for text in reads] == [0] * len(reads)


def test_every_module_says_what_it_owns():
    for path in FILES:
        assert (ast.get_docstring(tree_of(path)) or "").strip(), name_of(path)


def test_no_text_names_a_machine():
    machine = re.compile(rb"(?<![A-Za-z0-9_.])/(?:work|farm)/|(?<![a-z])shared/(?:corpus|design|kit|research|spec)")
    tried = 0
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if is_of_the_project(name)]
        for path in (Path(folder) / name for name in names if is_of_the_project(name)):
            if path.is_file() and path != Path(__file__):
                assert not machine.search(path.read_bytes()), path
                tried += 1
    assert tried > 1000


def is_of_the_project(name):
    """Whether a file or folder of this name is not made by a tool, as environments, caches and builds are."""
    return name in (".ci", ".github") or not (name.startswith(".") or name in ("build", "dist", "__pycache__"))
