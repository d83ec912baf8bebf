"""The layers of the house: who may import whom, who may touch the disk, how large a file and a function may be."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kafkalog_cli"
FILES = sorted(PACKAGE.rglob("*.py"))

ORDER = ["errors", "format", "storage", "actions", "output", "cli"]

DISK_CALLS = {"open", "rename", "unlink", "remove", "truncate", "link", "symlink", "rmdir", "mkdir", "fsync", "replace"}
MAY_TOUCH_DISK = {
    "storage/fs.py": "the door",
    "storage/lock.py": "asks who holds a lock, by a descriptor of its own",
    "storage/kernels.py": "the cache of compiled kernels, which is no log directory",
    "cli/app.py": "points the closed standard output at the null device",
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
    # a declaration of options, or a loop that pays for being flat
    "cli/dump_log.py:dump_log",
    "format/kernels/plain.py:scan",
    "format/kernels/compiled.py:_scan",
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
    return parts[1] if len(parts) > 1 and parts[0] == "kafkalog_cli" and parts[1] in ORDER else None


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nobody_imports_upward_or_sideways(path):
    own = name_of(path).removesuffix(".py").split("/")[0]
    if own not in ORDER:
        return
    found = {layer(module) for module in imports(tree_of(path))} - {None}
    assert {other for other in found if ORDER.index(other) > ORDER.index(own)} == set()


def test_format_knows_no_files_clock_or_environment():
    forbidden = {"os", "pathlib", "time", "logging", "sys"}
    for path in (PACKAGE / "format").rglob("*.py"):
        assert not forbidden & {module.partition(".")[0] for module in imports(tree_of(path))}, name_of(path)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_libraries_stay_in_their_layer(path):
    for module in imports(tree_of(path)):
        allowed = LIBRARIES.get(module.partition(".")[0])
        assert allowed is None or allowed(name_of(path)), f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_door_touches_the_disk(path):
    if name_of(path) in MAY_TOUCH_DISK:
        return
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name):
            assert function.id != "open", f"{name_of(path)}:{node.lineno}"
        elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            used = function.value.id in ("os", "shutil") and function.attr in DISK_CALLS
            assert not used, f"{name_of(path)}:{node.lineno}"
        if isinstance(function, ast.Attribute):
            assert function.attr not in ("write_text", "write_bytes", "read_bytes"), f"{name_of(path)}:{node.lineno}"


def test_functions_fit_a_screen_and_files_have_one_subject():
    large = set()
    for path in FILES:
        assert len(path.read_text().splitlines()) <= MOST_LINES_OF_A_FILE, name_of(path)
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                if lines > MOST_LINES_OF_A_FUNCTION:
                    large.add(f"{name_of(path)}:{node.name}")
    assert large <= LARGE_FUNCTIONS


def test_every_module_says_what_it_owns():
    for path in FILES:
        assert (ast.get_docstring(tree_of(path)) or "").strip(), name_of(path)


def test_no_tracked_text_names_a_machine():
    machine = re.compile(r"(?<![A-Za-z0-9_.])/(?:work|farm)/")
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part not in (".ci", ".github") for part in parts)
        if not hidden and path.suffix in {".py", ".md", ".toml", ".sh", ".json", ".java", ".xml", ".1"}:
            assert not machine.search(path.read_text(errors="replace")), path
