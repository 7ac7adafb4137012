"""Runbooks, as they are typed and kept."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tuner.app.study_queries import rank_file
from tuner.reports.documents import PAGE_FORMATS
from tuner.reports.ranking.ranking import render_ranking
from tuner.reports.runbook.runbook import marks, update_runbook

from ..wording import wording
from .typed import Typed

PROFILES = Path(__file__).resolve().parents[2] / "configs" / "profiles"
NAME = "simulated-socorro-2014"
FEW = [
    "--layouts",
    "24x1,4x6,1x24",
    "--strategy",
    "all",
    "--repeats",
    "2",
    "--window",
    "2m",
    "--warmup",
    "1m",
]
BEGIN, END = marks(NAME, "markdown")


@pytest.fixture
def tuner(tmp_path: Path) -> Typed:
    return Typed(tmp_path)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    done = Typed(folder)("grid", "--simulate", PROFILES / "socorro-2014.yaml", *FEW)
    assert done.returncode == 0, done.stderr
    return folder / f"{NAME}.tuner.db"


def test_the_page_is_printed_as_it_is_kept(tuner: Typed, study: Path) -> None:
    page = tuner("export", study, "--page", "--current", "1x24")
    kept = tuner("export", study, "--into", "RUNBOOK.md", "--current", "1x24")

    assert (page.returncode, kept.returncode) == (0, 0), kept.stderr
    text = (tuner.folder / "RUNBOOK.md").read_text(encoding="utf-8")
    heading, _, rest = page.stdout.partition("\n\n")
    assert text == (
        f"{heading}\n\n{BEGIN}\n\n<!-- made with --current 1x24 -->\n\n{rest.rstrip()}\n\n{END}\n"
    )
    for title in (
        "What to run",
        "Apply",
        "Compared with the layout in use",
        "Evidence",
        "Measurement conditions",
        "When to measure again",
    ):
        assert f"\n### {title}\n" in text


@pytest.mark.parametrize(
    "file", ["R.md", "R.html", "R.adoc", "R.rst", "R.xml --format confluence", "R.org", "R.tex", "R.textile"]
)
def test_the_same_study_gives_the_same_bytes_in_any_format(tuner: Typed, study: Path, file: str) -> None:
    name, *more = file.split()
    keep = ("export", study, "--into", name, *more)
    assert tuner(*keep, "--repeat-after", "30d").returncode == 0
    first = (tuner.folder / name).read_bytes()

    again, check = tuner(*keep, "--repeat-after", "30d"), tuner(*keep, "--check")

    assert (again.returncode, check.returncode) == (0, 0), check.stderr
    assert again.stderr == wording("export.up-date", name=name)
    assert (tuner.folder / name).read_bytes() == first
    if name not in ("R.org", "R.tex", "R.textile"):
        assert tuner(*keep, "--check", "--repeat-after", "31d").returncode == 4


def test_a_section_in_another_format_is_reported_and_gets_no_second_one(tuner: Typed, study: Path) -> None:
    assert tuner("export", study, "--into", "R.adoc", "--format", "markdown").returncode == 0
    first = (tuner.folder / "R.adoc").read_bytes()
    for options in ((), ("--check",)):
        done = tuner("export", study, "--into", "R.adoc", *options)

        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (wording("export.section-of-another-format", name=NAME))
    assert (tuner.folder / "R.adoc").read_bytes() == first
    assert tuner("export", study, "--into", "R.adoc", "--format", "markdown", "--check").returncode == 0


def test_a_mark_of_another_format_that_is_quoted_is_no_section(tuner: Typed, study: Path) -> None:
    (tuner.folder / "R.md").write_text(f"```\n// tuner:ranking:{NAME} begin\n```\n", encoding="utf-8")

    assert tuner("export", study, "--into", "R.md").returncode == 0


def test_a_section_of_before_pages_is_stale_and_becomes_one(tuner: Typed, study: Path) -> None:
    runbook = tuner.folder / "RUNBOOK.md"
    ranking = render_ranking(*rank_file(study), "markdown")
    runbook.write_text(
        update_runbook("# Ops\n", ranking, service=NAME, fmt="markdown", name="R") + "\nMine.\n",
        encoding="utf-8",
    )

    assert tuner("export", study, "--into", "RUNBOOK.md", "--check").returncode == 4
    assert tuner("export", study, "--into", "RUNBOOK.md").returncode == 0
    text = runbook.read_text(encoding="utf-8")
    assert text.startswith(wording("export.page-of-ops", name=NAME, begin=BEGIN))
    assert wording("export.what-run") in text
    assert text.endswith(f"{END}\n\nMine.\n")
    assert tuner("export", study, "--into", "RUNBOOK.md", "--check").returncode == 0


def test_line_ends_links_and_modes_stay(tuner: Typed, study: Path) -> None:
    real = tuner.folder / "real.md"
    real.write_bytes(b"# Ops\r\n\r\nMine.\r\n")
    real.chmod(0o640)
    (tuner.folder / "RUNBOOK.md").symlink_to("real.md")

    assert tuner("export", study, "--into", "RUNBOOK.md").returncode == 0

    assert (tuner.folder / "RUNBOOK.md").is_symlink()
    text = real.read_bytes()
    assert text.startswith(b"# Ops\r\n\r\nMine.\r\n\r\n## Processes")
    assert text.count(b"\n") == text.count(b"\r\n")
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tuner.folder.iterdir()) == ["RUNBOOK.md", "real.md"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes what is read-only, too")
def test_a_runbook_that_is_read_only_is_reported_and_left_alone(tuner: Typed, study: Path) -> None:
    runbook = tuner.folder / "RUNBOOK.md"
    runbook.write_text("Mine.\n", encoding="utf-8")
    runbook.chmod(0o400)

    done = tuner("export", study, "--into", "RUNBOOK.md")

    assert done.returncode == 2
    assert wording("export.runbook-cannot-be-written") in done.stderr
    assert runbook.read_text(encoding="utf-8") == "Mine.\n"


@pytest.mark.parametrize("name", ["R.md", "R.adoc", "R.rst", "R.html"])
def test_pictures_lie_beside_the_runbook_and_are_kept_up_to_date(
    tuner: Typed, study: Path, name: str
) -> None:
    keep = ("export", study, "--into", f"link/{name}")
    (tuner.folder / "ops").mkdir()
    (tuner.folder / "link").symlink_to("ops")
    assert tuner(*keep, "--pictures").returncode == 0

    files = sorted(path.name for path in (tuner.folder / "ops").iterdir())
    assert files == [f"R-{NAME}-layouts.svg", f"R-{NAME}-ranking.svg", name]
    text = (tuner.folder / "ops" / name).read_text(encoding="utf-8")
    for file in files[:2]:
        assert file in text
        assert ElementTree.parse(tuner.folder / "ops" / file).getroot().tag.endswith("svg")
    assert tuner(*keep, "--check").returncode == 0
    (tuner.folder / "ops" / files[0]).unlink()
    stale = tuner(*keep, "--check")
    assert (stale.returncode, stale.stderr.splitlines()[1]) == (
        4,
        f"tuner export {study} --into link/{name} --pictures",
    )
    assert tuner(*stale.stderr.splitlines()[1].split()[1:]).returncode == 0
    assert tuner(*keep, "--check").returncode == 0


def test_marks_in_a_page_about_tuner_are_text(tuner: Typed, study: Path) -> None:
    about = f"~~~~markdown\n{BEGIN}\n```\n{END}\n~~~~\n"
    (tuner.folder / "RUNBOOK.md").write_text(about, encoding="utf-8")

    assert tuner("export", study, "--into", "RUNBOOK.md").returncode == 0
    assert tuner("export", study, "--into", "RUNBOOK.md", "--check").returncode == 0
    assert (tuner.folder / "RUNBOOK.md").read_text(encoding="utf-8").startswith(about)


@pytest.mark.parametrize("fmt", PAGE_FORMATS)
def test_every_format_has_the_page_under_its_title(tuner: Typed, study: Path, fmt: str) -> None:
    done = tuner("export", study, "--page", "--format", fmt)

    assert done.returncode == 0, done.stderr
    assert wording("export.title-of-page", name=NAME) in done.stdout.splitlines()[0]
    assert "no service ran" in done.stdout


def test_confluence_shows_the_ranking_too(tuner: Typed, study: Path) -> None:
    done = tuner("export", study, "--format", "confluence")

    assert done.stdout.startswith(wording("simulate.no-service-ran-in-html"))
    assert "<table>" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--page --format latex", "--page has no latex"),
        ("--page --into R.md", "--page prints, and --into writes into a file"),
        ("--page --repeat-after 90", "--repeat-after: '90' has no unit"),
        ("--page --repeat-after 0d", "--repeat-after: should be longer than 0"),
        ("--page --pictures", "--pictures needs --into: the pictures go into the folder of the runbook"),
        ("--into R.org --pictures", "--pictures: orgtbl has no page"),
        ("--repeat-after 90d", "--repeat-after is for a page"),
        ("--into R.txt --format jira", "jira has no comments to mark a section with"),
        ("--page --current 5x5", "5x5 is not among the layouts"),
    ],
)
def test_what_cannot_be_is_reported_in_a_line_with_its_way_out(
    tuner: Typed, study: Path, options: str, said: str
) -> None:
    done = tuner("export", study, *options.split())

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {said}") or said in done.stderr.splitlines()[0]
    assert len(done.stderr.splitlines()) <= 2
