"""The site of docs/ builds without a broken link; its pages name commands and exit codes that exist."""

import re
from pathlib import Path

import mkdocs.commands.build
import mkdocs.config
import mkdocs.exceptions
import pytest
import yaml

from tests.support.commands import kafkalog
from tests.support.product import COMMANDS, ExitCode

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def build(target, **changes):
    config = mkdocs.config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(target), strict=True, **changes)
    mkdocs.commands.build.build(config)


def test_the_site_builds(tmp_path):
    build(tmp_path / "site")
    assert (tmp_path / "site" / "broker-messages" / "no-space-left-on-device" / "index.html").exists()
    index = (tmp_path / "site" / "broker-messages" / "index.html").read_text()
    assert len(re.findall(r'<li><a href="[a-z-]+/"><code>', index)) > 250
    objects = (tmp_path / "site" / "output" / "index.html").read_text()
    assert "Record batch v2" in (tmp_path / "site" / "format" / "index.html").read_text()
    assert objects.count('<h2 id="kafkalog') == len(list((DOCS / "schemas").iterdir()))


def test_a_broken_link_is_noticed(tmp_path):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("[nowhere](nowhere.md)")
    with pytest.raises(mkdocs.exceptions.Abort):
        build(tmp_path / "site", docs_dir=str(pages), nav=None)


def test_every_command_has_a_row():
    rows = re.findall(r"^\| `([a-z][a-z-]+)", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(COMMANDS)


def test_exit_codes_are_all_there():
    codes = re.findall(r"^\| (\d+) \|", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert [int(code) for code in codes] == [code.value for code in ExitCode]


def test_pods_of_the_kubernetes_page_mount_each_declared_volume():
    pods = [
        yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", (DOCS / "kubernetes.md").read_text(), re.S)
    ]
    assert len(pods) == 1
    for pod in pods:
        assert (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) == ("v1", "Pod", "kafkalog")
        container = pod["spec"]["containers"][0]
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            volume["name"] for volume in pod["spec"]["volumes"]
        }


def test_llms_txt_names_the_commands_that_only_read_and_pages_that_exist():
    text = (ROOT / "llms.txt").read_text()
    (listed,) = re.findall(r"only read: ([a-z, -]+)\.", text)
    writes = {name for name in COMMANDS if "--assume-offline" in kafkalog(name, "--help").out}
    assert listed.split(", ") == [name for name in COMMANDS if name not in {*writes, "demo", "warmup"}]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
