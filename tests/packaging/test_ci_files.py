"""The GitHub Action, the pre-commit hook, the workflows, and the examples of docs/ci.md, as far as a machine without network can run them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PAGE = (ROOT / "docs" / "ci.md").read_text()


def yaml(text):
    return YAML(typ="safe", pure=True).load(text)


def check_schema(path, schema):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def kafkalog(tmp_path_factory):
    """A folder with the command `kafkalog` of this source."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "kafkalog"
    path = shlex.quote(":".join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    script.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -m kafkalog_cli "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture(scope="module")
def torn(tmp_path_factory):
    """A log directory whose last batch is incomplete."""
    folder = tmp_path_factory.mktemp("logs with space") / "data"
    shutil.copytree(ROOT / "docs" / "example", folder)
    log = folder / "mixed-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-7])
    return folder


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_satisfies_its_schema(path):
    check_schema(path, "github-workflows")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_satisfies_its_schema(path):
    check_schema(path, "github-issue-config" if path.stem == "config" else "github-issue-forms")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_rights_are_few(path):
    workflow = yaml(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (\S+)(.*)", path.read_text())
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v[\d.]+", comment)
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "an expression in a script is an injection"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_scripts_of_workflows_are_bash_and_name_what_is_there(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in yaml(path.read_text())["jobs"].values():
        for step in job["steps"]:
            if "run" in step:
                subprocess.run(["bash", "-n", "-c", step["run"]], check=True)
                assert set(re.findall(r"make ([a-z-]+)", step["run"])) <= targets
                assert all((ROOT / name).exists() for name in re.findall(r" (\.ci/\w+)", step["run"]))


def test_the_action_satisfies_its_schema():
    check_schema(ROOT / "action.yml", "github-actions")


def run_action(tmp_path, kafkalog, **inputs):
    """Run the step `verify` as a runner does: inputs as its environment. (exit code, stdout, outputs)."""
    action = yaml((ROOT / "action.yml").read_text())
    given = {name: entry.get("default", "") for name, entry in action["inputs"].items()}
    given |= {"command": str(kafkalog), **{name.replace("_", "-"): value for name, value in inputs.items()}}
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "verify"]
    assert "${{" not in step["run"], "an expression in a script is an injection"
    expression = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")
    environment = {name: expression.sub(lambda found: given[found[1]], value) for name, value in step["env"].items()}
    outputs = tmp_path / "outputs"
    outputs.write_text("")
    environment |= {"PATH": os.environ["PATH"], "GITHUB_OUTPUT": str(outputs), "RUNNER_TEMP": str(tmp_path)}
    # the shell that GitHub starts for `shell: bash`
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    return done.returncode, done.stdout, outputs.read_text()


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 3), ("corruption", 0), ("never", 0)])
def test_the_action_annotates_a_damaged_tail_and_writes_its_reports(tmp_path, kafkalog, torn, fail_on, code):
    done = run_action(tmp_path, kafkalog, paths=f"\n  {torn}\n", fail_on=fail_on, junit="j.xml", sarif="s.sarif")
    assert done[0] == code
    assert done[2] == "exit-code=3\n"
    assert re.search(r"^::warning file=.*torn-tail", done[1], re.MULTILINE)
    assert (tmp_path / "j.xml").read_text().startswith("<?xml")
    assert json.loads((tmp_path / "s.sarif").read_text())["version"] == "2.1.0"


def test_the_action_ends_with_the_exit_code_of_verify_for_sound_missing_and_wrong_input(tmp_path, kafkalog):
    sound = f"{ROOT}/docs/example/mixed-0\n  {ROOT}/docs/example/mixed-1"
    assert run_action(tmp_path, kafkalog, paths=sound, level="deep")[::2] == (0, "exit-code=0\n")
    assert run_action(tmp_path, kafkalog, paths="/no/such", fail_on="never")[::2] == (10, "exit-code=10\n")
    assert run_action(tmp_path, kafkalog, paths="", fail_on="never")[0] == 2
    assert run_action(tmp_path, kafkalog, paths=sound, fail_on="always")[0] == 2
    assert run_action(tmp_path, kafkalog, paths="--help", fail_on="never")[0] == 10


def test_the_pre_commit_hook_runs(kafkalog, torn, tmp_path):
    (hook,) = yaml((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= set(hook)
    environment = {"PATH": f"{kafkalog.parent}:{os.environ['PATH']}"}
    for folder, code in ((ROOT / "docs" / "example", 0), (torn, 3)):
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        chosen = [name for name in names if re.search(hook["files"], name)]
        assert {Path(name).suffix for name in chosen} >= {".log", ".index", ".timeindex"}
        done = subprocess.run(
            [*shlex.split(hook["entry"]), *chosen], cwd=folder, env=environment, capture_output=True, check=False
        )
        assert done.returncode == code, done.stdout
        assert bool(done.stdout) == bool(code)


@pytest.mark.parametrize("script", re.findall(r"<!-- run -->\n```sh\n(.*?)```", PAGE, re.DOTALL))
def test_the_commands_of_the_ci_page_run(script, kafkalog, tmp_path):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    environment = {"PATH": f"{kafkalog.parent}:{os.environ['PATH']}"}
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True, stdout=subprocess.DEVNULL
    )


@pytest.mark.parametrize("schema", ["github-workflows", "gitlab-ci"])
def test_the_examples_of_the_page_satisfy_their_schemas(schema, tmp_path):
    (example,) = re.findall(rf"<!-- {schema} -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "example.yml"
    path.write_text(example)
    check_schema(path, schema)
    used = set(re.findall(r"--report (\w+)", example))
    assert used <= {"junit", "sarif", "github"}
    if schema == "github-workflows":
        (step,) = [step for step in yaml(example)["jobs"]["logs"]["steps"] if "kafkalog@" in step.get("uses", "")]
        assert set(step["with"]) <= set(yaml((ROOT / "action.yml").read_text())["inputs"])


def test_the_hook_of_the_page_is_there():
    (example,) = re.findall(r"<!-- pre-commit-config -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    (repository,) = yaml(example)["repos"]
    hooks = {hook["id"] for hook in yaml((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for hook in repository["hooks"]} <= hooks


def test_the_image_runs_as_another_user_and_its_context_is_enough(tmp_path):
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    assert [rest for word, *rest in words if word == "USER"] == [["1000:1000"]]
    assert [rest for word, *rest in words if word == "VOLUME"] == [["/logs"]]
    assert words[-2] == ["ENTRYPOINT", '["kafkalog"]']
    first, *rules = (ROOT / ".dockerignore").read_text().split()
    assert first == "*"
    for name in (rule.removeprefix("!") for rule in rules if rule.startswith("!")):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path / "out"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert list((tmp_path / "out").glob("*.whl"))
