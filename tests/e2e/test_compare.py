"""Two studies compared, as it is typed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..wording import wording
from .typed import Typed

SOCORRO = Path(__file__).resolve().parents[2] / "configs" / "profiles" / "socorro-2014.yaml"
ALL = ("--cores", "4", "--window", "2m", "--warmup", "1m", "--strategy", "all", "--repeats", "4")


@pytest.fixture(autouse=True, scope="module")
def _wide() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        yield


@pytest.fixture(scope="module")
def tuner(tmp_path_factory: pytest.TempPathFactory) -> Typed:
    """Where a study, one of half as fast a service, and one of other layouts are."""
    typed = Typed(tmp_path_factory.mktemp("compare"))
    text = SOCORRO.read_text(encoding="utf-8")
    (typed.folder / "slow.yaml").write_text(text.replace("child: 3.3s", "child: 6.6s"), encoding="utf-8")
    for name, profile, layouts in (
        ("before", SOCORRO, "4x1,2x2,1x4"),
        ("after", "slow.yaml", "4x1,2x2,1x4"),
        ("other", SOCORRO, "1x1,1x2"),
    ):
        done = typed("grid", "--simulate", profile, *ALL, "--layouts", layouts, "--study", f"{name}.tuner.db")
        assert done.returncode == 0, done.stderr
    return typed


def test_what_changed_and_why_it_may_have_is_reported(tuner: Typed) -> None:
    done = tuner("compare", "before.tuner.db", "after.tuner.db")

    assert done.returncode == 0
    assert done.stdout.startswith(wording("simulate.no-service-ran"))
    assert "config: simulate.demands.child  3.3s    6.6s" in done.stdout
    assert "All 3 layouts together: " in done.stdout
    assert wording("compare.they-share-their-luck") in done.stdout


def test_a_slower_release_ends_with_4_and_the_same_one_with_0(tuner: Typed) -> None:
    slower = tuner("compare", "before.tuner.db", "after.tuner.db", "--fail-if-slower", "5%")
    faster = tuner("compare", "after.tuner.db", "before.tuner.db", "--fail-if-slower", "0.05")

    assert slower.returncode == 4
    assert "All 3 layouts together" in slower.stderr
    assert (faster.returncode, faster.stderr) == (0, wording("compare.not-slower-by-more", share=5) + "\n")


def test_names_that_turn_text_around_are_reported_as_what_they_are(tuner: Typed) -> None:
    turned = "a\u202egnp\x1b[31m.tuner.db"
    (tuner.folder / turned).write_bytes((tuner.folder / "after.tuner.db").read_bytes())
    done = tuner("compare", "before.tuner.db", turned, "--fail-if-slower", "5%")

    assert done.returncode == 4
    assert "a\\u202egnp" in done.stdout
    for text in (done.stdout, done.stderr):
        assert "\u202e" not in text
        assert "\x1b" not in text


def test_the_page_is_written_and_replaces_only_a_page_of_ours(tuner: Typed) -> None:
    asked = ("compare", "before.tuner.db", "after.tuner.db", "-o", "page.html")
    done = [tuner(*asked) for _ in range(2)]
    page = (tuner.folder / "page.html").read_text(encoding="utf-8")
    (tuner.folder / "mine.html").write_text("mine", encoding="utf-8")
    refused = tuner(*asked[:-1], "mine.html")
    printed = tuner(*asked[:-1], "-")

    assert [one.returncode for one in done] == [0, 0]
    assert wording("simulate.no-service-ran") in page
    assert printed.stdout == page
    assert refused.returncode == 2
    assert (tuner.folder / "mine.html").read_text(encoding="utf-8") == "mine"
    assert tuner(*asked[:-1], "mine.html", "--force").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["before.tuner.db", "other.tuner.db"], "have no layout that both measured: "),
        (["before.tuner.db", "./before.tuner.db"], "before.tuner.db is the same study twice"),
        (["before.tuner.db", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["before.tuner.db", "after.tuner.db", "--fail-if-slower", "much"], "'much' is not a share"),
        (["before.tuner.db", "after.tuner.db", "--format", "pdf"], "--format: no such format: 'pdf'"),
        (["before.tuner.db", "after.tuner.db", "-o", "x.html", "--json"], "--format and --json print"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_reported_in_a_line(tuner: Typed, words: list[str], said: str) -> None:
    done = tuner("compare", *words)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
