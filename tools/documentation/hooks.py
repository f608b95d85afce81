"""Hooks of MkDocs: what the pages of the site have beside what their files say."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[([^\]\n]+)\]\((?!\w+:)([^)#\s]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Name a file of the repository that is no page, instead of linking to it."""
    folder = Path(config.docs_dir, page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        if target.is_relative_to(config.docs_dir):
            return found[0]
        return f"{found[1]} (`{target.relative_to(ROOT)}`)" if found[1] != target.name else f"`{target.name}`"

    return LINK.sub(link, markdown)
