"""Hooks of MkDocs: what the pages of the site have beside what their files say.

The part of a page between the lines ``<!-- built: NAME -->`` and ``<!-- built: end -->`` gives way to the
part of that name in `generated`. That is made at each build from what declares it, so it is never out of
date. What stands between the lines tells those who read the page as a file where to look.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from tools.documentation.generated import PARTS

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(r"^<!-- built: (\w+) -->$.*?^<!-- built: end -->$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]\n]+)\]\((?!\w+:)([^)#\s]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in what is generated; name files of the repository that are no pages instead of linking to them."""
    folder = Path(config.docs_dir, page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        if target.is_relative_to(config.docs_dir):
            return found[0]
        return f"{found[1]} (`{target.relative_to(ROOT)}`)" if found[1] != target.name else f"`{target.name}`"

    return PART.sub(lambda found: PARTS[found[1]](), LINK.sub(link, markdown))
