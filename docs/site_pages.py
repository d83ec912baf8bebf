"""A hook of mkdocs: adds the pages that are made of the code to the site, JSON objects and on-disk layouts."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import generate_format
import generate_schemas


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add output.md and format.md to the files of the site."""
    files.append(File.generated(config, "output.md", content=generate_schemas.page(generate_schemas.kinds())))
    files.append(File.generated(config, "format.md", content=generate_format.render()))
    return files
