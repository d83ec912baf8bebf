"""The layers of the house: who may import whom, who may touch the disk, how large a file and a function may be."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kafkalog_cli"
FILES = sorted(PACKAGE.rglob("*.py"))

BENEATH = {
    # layer: those that it may import besides itself
    "errors": set(),
    "format": {"errors"},
    "storage": {"errors", "format"},
    "actions": {"errors", "format", "storage"},
    "output": {"errors", "format", "storage", "actions"},
    "spark": {"errors", "format", "storage", "actions"},
    "cli": {"errors", "format", "storage", "actions", "output", "spark"},
}

DISK_CALLS = re.compile(
    "open|unlink|rmdir|mkdir|makedirs|touch|renames?|symlink|symlink_to|hardlink_to|fsync|ftruncate|rmtree|mkdtemp"
    "|read_bytes|read_text|write_bytes|write_text|listdir|scandir|iterdir|rglob|chmod|chown|utime|copyfile"
)
DISK_CALLS_OF_OS = re.compile("replace|remove|truncate|link|stat|write|pwrite|copy2?|move")
"""Names that methods of strings, lists, arrays and streams have too."""
MAY_TOUCH_DISK = {
    "__main__.py": "standard descriptors: the version, and the null device where one is closed",
    "storage/fs.py": "the door",
    "storage/lock.py": "asks who holds a lock, by a descriptor of its own",
    "storage/kernels.py": "the cache of compiled kernels, which is no log directory",
    "cli/app.py": "points the closed standard output at the null device",
    "format/internal_topics/schema.py": "reads a file of the package itself, through importlib.resources",
}

LIBRARIES = {
    "typer": lambda name: name.startswith("cli/"),
    "click": lambda name: name.startswith("cli/"),
    "rich": lambda name: name.startswith("output/"),
    "pyspark": lambda name: name.startswith("spark/"),
    "numba": lambda name: "/kernels/" in name,
    "llvmlite": lambda name: "/kernels/" in name,
}

LARGE_FUNCTIONS = {
    "cli/dump_log.py:dump_log": "declares its options, one a line",
}
MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_FILE = 420


def name_of(path):
    return str(path.relative_to(PACKAGE))


def tree_of(path):
    return ast.parse(path.read_text())


def imports(tree):
    """Modules that a file imports anywhere, but for those that only types need."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skipped.update(id(child) for child in ast.walk(node))
    for node in ast.walk(tree):
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


def disk_calls(tree):
    """Calls that read, list or change files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id == "open":
                yield f"open, line {node.lineno}"
            elif isinstance(function, ast.Attribute):
                of_os = isinstance(function.value, ast.Name) and function.value.id in ("os", "shutil")
                if DISK_CALLS.fullmatch(function.attr) or (of_os and DISK_CALLS_OF_OS.fullmatch(function.attr)):
                    yield f"{function.attr}, line {node.lineno}"


def large_functions(name, tree):
    for node in ast.walk(tree):
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if is_function and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION:
            yield f"{name}:{node.name}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nobody_imports_upward_or_sideways(path):
    assert imports_upward(name_of(path), tree_of(path)) == set()


def test_every_folder_is_a_layer():
    folders = {path.relative_to(PACKAGE).parts[0] for path in FILES if path.parent != PACKAGE}
    assert folders <= set(BENEATH)
    assert {path.stem for path in FILES if path.parent == PACKAGE} == {"__init__", "__main__", "errors"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_libraries_stay_in_their_layer(path):
    assert libraries_elsewhere(name_of(path), tree_of(path)) == set()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_door_touches_the_disk(path):
    assert (list(disk_calls(tree_of(path))) != []) == (name_of(path) in MAY_TOUCH_DISK)


def test_format_knows_no_files_clock_or_environment():
    forbidden = {"os", "pathlib", "time", "datetime", "logging", "sys", "shutil", "tempfile", "subprocess", "mmap"}
    for path in (PACKAGE / "format").rglob("*.py"):
        assert not forbidden & {module.partition(".")[0] for module in imports(tree_of(path))}, name_of(path)


def test_functions_fit_a_screen_and_files_have_one_subject():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= MOST_LINES_OF_A_FILE, name_of(path)
    assert {found for path in FILES for found in large_functions(name_of(path), tree_of(path))} == set(LARGE_FUNCTIONS)


def test_the_rules_bite():
    bad = ast.parse(
        "import rich.table\nfrom kafkalog_cli.cli import app\nwith open(x) as f: Path(y).unlink()\nos.replace(a, b)"
    )
    assert imports_upward("actions/verify.py", bad) == {"cli"}
    assert imports_upward("spark/source.py", bad) == {"cli"}
    assert imports_upward("cli/ls.py", bad) == set()
    assert libraries_elsewhere("actions/verify.py", bad) == {"rich"}
    assert set(disk_calls(bad)) == {"open, line 3", "unlink, line 3", "replace, line 4"}
    lines = "def long():\n" + "    pass\n" * MOST_LINES_OF_A_FUNCTION
    assert list(large_functions("a.py", ast.parse(lines))) == ["a.py:long"]
    assert list(disk_calls(ast.parse("text.replace(a, b); stream.write(c)"))) == []


def test_every_module_says_what_it_owns():
    for path in FILES:
        assert (ast.get_docstring(tree_of(path)) or "").strip(), name_of(path)


def test_no_text_names_a_machine():
    machine = re.compile(rb"(?<![A-Za-z0-9_.])/(?:work|farm)/|(?<![a-z])shared/(?:corpus|design|kit|research|spec)")
    tried = 0
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        others = any(part.startswith(".") and part not in (".ci", ".github") for part in parts)
        others = others or {"build", "dist", "__pycache__"} & set(parts)
        if not others and path.is_file() and path != Path(__file__):
            assert not machine.search(path.read_bytes()), path
            tried += 1
    assert tried > 100
