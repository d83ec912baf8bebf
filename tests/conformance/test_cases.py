"""Rules of Kafka, promises of kafkalog: each file of cases/ has logs, commands and what the commands answer.

A case has a `name`, a `log` (the name of one in `logs`, or a table as specification.py describes), `run` (a command line, or several:
`expect` is of the last, those before must succeed), and `expect`. Where it has `columns` and `rows`, it runs once for each row, and
`{column}` stands for the row's value. `stdin` is the input of each command. Each command runs in the log directory.

`expect` holds values by their path in the JSON objects: `truncation.log_end_offset` is of the only object of this type, `finding[].kind`
are all of them, and `finding[kind=torn-tail].position` of those with this kind. `code` is the exit code, 0 if it is not there, or `any`; `out` and `err` are
pieces of the text, `files` the names of the files of t-0 afterwards, `lines` the line of a
checkpoint. Times may be written as in a log: T+10.
"""

import re
from pathlib import Path

import pytest

from tests.conformance.specification import TIME, milliseconds, short_names, with_times, write_log
from tests.support.commands import kafkalog, objects_in

try:
    import tomllib
except ImportError:  # Python 3.10, where pytest needs tomli
    import tomli as tomllib

CASES = Path(__file__).with_name("cases")
STEP = re.compile(r"(\w[\w-]*)(\[(?:(\w+)=([^\]]*))?\])?(?:\.|$)")


def all_cases():
    """Each row of each case of each file, with the log it is about."""
    for path in sorted(CASES.glob("*.toml")):
        content = tomllib.loads(path.read_text())
        for case in content["cases"]:
            log = case["log"]
            log = content.get("logs", {})[log] if isinstance(log, str) else log
            log = content.get("logs", {}).get(log.get("like"), {}) | log if "like" in log else log
            for row in case.get("rows", [[]]):
                values = dict(zip(case.get("columns", []), row, strict=True))
                name = f"{path.stem}: {case['name']}" + (f" {row}" if row else "")
                yield pytest.param(_filled(case, values), _filled(log, values), id=name)


def _filled(value, values):
    """A value with those of a row in the place of {column}; alone, the value keeps its type."""
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if isinstance(value, dict):
        return {_filled(name, values): _filled(item, values) for name, item in value.items()}
    for name, given in values.items():
        if value == f"{{{name}}}":
            return given
        if isinstance(value, str):
            value = value.replace(f"{{{name}}}", str(given))
    return value


def argv_of(line):
    words = re.findall(r"'[^']*'|\S+", line)
    return [TIME.sub(lambda found: str(milliseconds(found[0])), word.strip("'")) for word in words]


def values_at(path, objects):
    """What the objects have at a path of `expect`: a value, or a list of them."""
    values, is_list = objects, False
    for number, (name, brackets, key, wanted) in enumerate(STEP.findall(path)):
        if number == 0:
            values = [value for value in values if value["type"] == name]
        else:
            values = [value[name] for value in values]
        if brackets:
            values = values if number == 0 else [item for value in values for item in value]
            values = [value for value in values if not key or str(value[key]) == wanted]
            is_list = True
    if is_list:
        return values
    assert len(values) == 1, f"{len(values)} objects for {path}"
    return values[0]


@pytest.mark.parametrize(("case", "log"), list(all_cases()))
def test_commands_answer_as_the_case_says(case, log, tmp_path, monkeypatch):
    root = tmp_path / "D"
    write_log(log, root)
    monkeypatch.chdir(root)
    stdin = case.get("stdin", "").encode()
    *before, last = [case["run"]] if isinstance(case["run"], str) else case["run"]
    for command in before:
        ran = kafkalog(*argv_of(command), stdin=stdin)
        assert ran.code == 0, ran
    expected, form = dict(case["expect"]), [] if "text" in case else ["--format", "json"]
    ran = kafkalog(*argv_of(last), *form, stdin=stdin)
    out, err = (short_names(text.replace(f"{root}/", "").replace('"./', '"')) for text in (ran.out, ran.err))
    code = expected.pop("code", 0)
    assert code in (ran.code, "any"), (ran.code, out, err)
    for name, text in (("out", out), ("err", err)):
        wanted = expected.pop(name, [])
        for piece in [wanted] if isinstance(wanted, str) else wanted:
            assert piece in text
    if "files" in expected:
        assert sorted(short_names(path.name) for path in (root / "t-0").iterdir()) == sorted(expected.pop("files"))
    for name, line in expected.pop("lines", {}).items():
        assert (root / f"{name}-checkpoint").read_text().splitlines()[2:] == [line]
    if expected:
        objects = objects_in(out) + objects_in(err)
        found = {path: values_at(path, objects) for path in expected}
        assert found == with_times(expected), objects
