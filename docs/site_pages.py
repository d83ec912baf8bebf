"""A hook of mkdocs: adds what is made of the code to the site: JSON objects, layouts, lines of a broker's log."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from kafkalog_cli.ops.check.doctor.broker_pages import messages

sys.path.insert(0, str(Path(__file__).parent))

import generate_format
import generate_schemas


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add output.md and format.md to the files of the site."""
    files.append(File.generated(config, "output.md", content=generate_schemas.page(generate_schemas.kinds())))
    files.append(File.generated(config, "format.md", content=generate_format.render()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add all texts to the index of the pages on lines of a broker's log."""
    if page.file.src_uri != "broker-messages/README.md":
        return markdown
    texts = [(text.text.replace("{}", "…"), message.slug) for message in messages() for text in message.texts]
    lines = [f"- [`{text}`]({slug}.md)" for text, slug in sorted(texts, key=lambda pair: pair[0].lower())]
    return "\n".join([markdown, "", *lines])
