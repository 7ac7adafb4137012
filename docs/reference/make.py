"""Writes pages from the code: commands.md, config.md, exit-codes.md, public.md, tables of ../messages.md, and
../pictures/architecture.svg.

python docs/reference/make.py           # write them
python docs/reference/make.py --check   # write nothing; exit code 1 when one is not what the code says
"""

from __future__ import annotations

import sys
from pathlib import Path

from architecture import render_architecture
from commands import render_commands
from config_keys import render_config
from messages import with_tables
from public import render_public

from tuner.core.errors import EXIT_CODES

HERE = Path(__file__).resolve().parent
AGAIN = "<!-- Made from the code by docs/reference/make.py (make reference): change it there. -->\n\n"


def render_exit_codes() -> str:
    """Each code with its meaning and what to do."""
    rows = [f"- **{one.code}**: {one.meaning}. {_linked(one.then)}\n" for one in EXIT_CODES]
    return (
        "# Exit codes\n\n"
        "Every tuner command ends with one of these exit codes. Scripts can rely on their meaning.\n"
        "Whatever the exit code, the study file keeps all valid measurements.\n\n" + "".join(rows) + "\n"
        "tuner writes results to stdout, and errors, warnings and progress to stderr.\n"
    )


def _linked(text: str) -> str:
    for page in ("messages.md", "first-study.md", "brake.md"):
        text = text.replace(page, f"[{page}](../{page})")
    return text


PAGES = {
    "commands.md": render_commands,
    "config.md": render_config,
    "exit-codes.md": render_exit_codes,
    "public.md": render_public,
}


def main() -> int:
    """Write the pages, or look whether they are as they should be."""
    stale, messages = [], HERE.parent / "messages.md"
    pages = {HERE / name: AGAIN + render() for name, render in PAGES.items()}
    pages[messages] = with_tables(messages.read_text(encoding="utf-8"))
    pages[HERE.parent / "pictures" / "architecture.svg"] = render_architecture()
    for file, page in pages.items():
        if file.exists() and file.read_text(encoding="utf-8") == page:
            continue
        stale.append(file.name)
        if "--check" not in sys.argv[1:]:
            file.write_text(page, encoding="utf-8")
    if stale and "--check" in sys.argv[1:]:
        sys.stdout.write(f"Not what the code says: {', '.join(stale)}. make reference writes them.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
