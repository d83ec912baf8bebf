"""How the house hangs together: who inherits from whom, and how far it is from a command to its plan."""

import ast
import io
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kafkalog_cli"
EXAMPLE = ROOT / "docs" / "example"
MOST_HOPS = 6
COMPACTED = ("--config", "cleanup.policy=compact")
PLANS = {
    # the function that makes the plan: the command line that leads to it
    "plan_roll": ("roll",),
    "plan_retain": ("retain", "--config", "cleanup.policy=delete", "--config", "retention.ms=1"),
    "plan_compact": ("compact", *COMPACTED),
    "plan_recovery": ("recover",),
    "verify_partition": ("verify",),
    "audit_task": ("audit",),
    "plan_purge": ("purge",),
    "plan_append": ("append", "--dry-run", "--input", "lines"),
    "plan_truncate": ("truncate", "--to", "60", "--dry-run"),
    "plan_delete_records": ("delete-records", "--before", "60", "--dry-run"),
}


def classes_with_bases_of_ours(source):
    """Classes that inherit from a class of this package: imported from it, or defined in the same file."""
    tree = ast.parse(source)
    ours = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafkalog_cli"):
            ours |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
            if bases & ours:
                yield node.name


def test_no_class_of_the_command_line_has_a_base_class_of_ours():
    for path in (PACKAGE / "cli").rglob("*.py"):
        assert not list(classes_with_bases_of_ours(path.read_text())), path


def test_a_base_class_of_ours_is_seen():
    source = "from kafkalog_cli.output.views import View\nclass A(View[int]): ...\nclass B(A): ...\nclass C(dict): ..."
    assert list(classes_with_bases_of_ours(source)) == ["A", "B"]


def class_places(sources):
    """The files that define each public class, by its name; `sources` are texts by path."""
    places = {}
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)
    return places


def test_no_public_class_name_is_defined_twice():
    """A name has one meaning, wherever it is read."""
    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert {name: places for name, places in class_places(sources).items() if len(places) > 1} == {}


def test_a_class_name_that_is_defined_twice_is_seen():
    sources = {"a.py": "class A: ...\nclass _B: ...", "b.py": "if x:\n    class A: ...\nclass _B: ...\nclass C: ..."}
    assert class_places(sources) == {"A": ["a.py", "b.py"], "C": ["b.py"]}


def rooms_that_are_not_there(folder):
    """The modules that the docstring of a package names as `module` in a list, or as `module.py`, and that it lacks."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    lists = " ".join(re.findall(r"^- ((?:`[a-z_]+`,? ?)+):", text, re.MULTILINE))
    for name in re.findall(r"`([a-z_]+)`", lists) + re.findall(r"`([a-z_*…]+)\.py`", text):
        if not (folder / name).is_dir() and not list(folder.glob(name.replace("…", "*") + ".py")):
            yield name


def test_the_docstring_of_a_package_names_rooms_that_are_there():
    """A newcomer looks for the room in the docstrings; docs/architecture.md has the paths of files too."""
    for path in PACKAGE.rglob("__init__.py"):
        assert list(rooms_that_are_not_there(path.parent)) == [], path
    paths = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", (ROOT / "docs" / "architecture.md").read_text())
    assert [one for one in paths if not (PACKAGE / one).exists() and not (ROOT / one).exists()] == []
    assert len(paths) > 20


def test_a_room_that_is_not_there_is_seen(tmp_path):
    (tmp_path / "__init__.py").write_text('"""A.\n\n- `a`, `b`: rooms.\n- `c`: a room, with `d.py` and `…_e.py`.\n"""')
    for name in ("a.py", "x_e.py"):
        (tmp_path / name).touch()
    assert list(rooms_that_are_not_there(tmp_path)) == ["b", "c", "d"]


def files_on_the_way(argv, function):
    """The files of ours, in the order of calls, from the command's function to the first call of `function`."""
    found = []

    def watch(frame, event, _):
        if found or event != "call" or frame.f_code.co_name != function:
            return
        while frame is not None:
            found.append(frame.f_code.co_filename)
            frame = frame.f_back
        raise KeyboardInterrupt  # the command need not go on: that of audit would start Spark

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run(argv, Environment(stdout=io.BytesIO(), stderr=io.BytesIO(), stdin=io.BytesIO(b"x\n"), terminal=None))
    finally:
        sys.setprofile(before)
    files = [os.path.relpath(name, PACKAGE) for name in reversed(found) if name.startswith(f"{PACKAGE}{os.sep}")]
    commands = [
        at for at, name in enumerate(files) if name.startswith("cli/") and name not in {"cli/app.py", "cli/declared.py"}
    ]
    return files[commands[0] :] if commands else []


@pytest.mark.parametrize("function", PLANS)
def test_a_plan_is_near_its_command(tmp_path, function):
    """The models: bbolt's compact is a command file and a call; restic's check three files."""
    folder = shutil.copytree(EXAMPLE, tmp_path / "data")
    verb, *more = PLANS[function]
    path = folder / "mixed-0"
    if verb == "audit":
        pytest.importorskip("pyspark")
    else:
        more += ["--single-replica"] if verb in {"append", "truncate", "delete-records"} else ["--jobs", "1"]
    files = files_on_the_way([verb, str(path), *more], function)
    assert files, "the plan was not made"
    hops = [name for at, name in enumerate(files) if not at or name != files[at - 1]]
    assert len(hops) - 1 <= MOST_HOPS, hops
