from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tuner.core.text.safe_text import page_line
from tuner.reports.documents import (
    PAGE_FORMATS,
    Bullets,
    Code,
    Heading,
    Note,
    Paragraph,
    Picture,
    render_document,
    shell_line,
)
from tuner.reports.documents.plain import shell_word

from ..wording import wording

#: each of them is markup in one of the formats, where a line begins or within it
HOSTILE = (
    "# a", "## a", "= a", "== a", "- a", "+ a", "* a", "> a", ">>> a", "| a", ". a", ".a", ".. a",
    ".. note:: a", ".. raw:: html", "// a", "//// a", "1. a", "1) a", "a. b", "i. b", "iv) b", ":a: b",
    ":a:", "a:: b", "a::", "a ;; b", "--- a", "====", "h1. a", "bq. a", "NOTE: a", "WARNING: a",
    "include::a[]", "ifdef::a[]", "image::a[]", "    a", "\ta", "a  b", "a +", "a\\", "\\a", "\\*a*", "*a*",
    "**a**", "_a_", "__a__", "`a`", "``a``", "~a~", "~~a~~", "^a^", "{a}", "{{a}}", "{code}", "{a:b}",
    "[a](b)", "[a]", "![a](b)", "[a|b]", "[[a]]", "<<a>>", "((a))", "(((a)))", "a_", "a__", "`a`_", "|a|",
    "[1]_", ":a:`b`", "http://a.b/c", "https://a.b", "www.a.b", "mailto:a@b.c", "a@b.c", "4x4@gthread",
    "@a", "<script>alert(1)</script>", "<b>", "</p>", "<!-- a -->", "&amp;", "&#60;b&#62;", "&", "a--b",
    "a -- b", "$a$", "$$a$$", "\"a\"", "'a'", "(C)", "a->b", "...", "!a!", "(/)", "(x)", "(i)", "-a-",
    "+a+", "??a??", "]]>", "<1>", "--", "----", "```", "~~~", "+++a+++", "pass:[a]", "#a#", "[.a]#b#",
    "link:a[b]", "xref:a[b]", "+a", "* * *", "-a", "é_è", "名前_", "a\u202eb", "a\u200bb", "a\u2028b",
    "a\x1b[31mb", "a\nb", "a\r\n.. b",
)  # fmt: skip
#: of these the ones that Markdown sets as code
ADDRESSES = ("http://a.b/c", "https://a.b", "www.a.b", "mailto:a@b.c", "a@b.c")
TEXT = st.one_of(
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=30),
    st.lists(st.sampled_from(HOSTILE), max_size=3).map(" ".join),
).filter(lambda text: page_line(text) != "")


def module_or_skip(name: str) -> ModuleType:
    """A reader that comes with other packages of the development environment."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return pytest.importorskip(name, reason=f"{name} is not installed here")


class Read(HTMLParser):
    """What a reader of the page sees, and the tags it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> tuple[str, set[str]]:
    reader = Read()
    reader.feed(page)
    return " ".join(reader.text.split()), reader.tags


def shown(text: str) -> str:
    return " ".join(page_line(text).split())


def by_commonmark(text: str) -> str:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)


def by_python_markdown(text: str) -> str:
    return str(module_or_skip("markdown").markdown(text, extensions=["tables", "fenced_code"]))


@pytest.mark.parametrize("render", [by_commonmark, by_python_markdown])
@pytest.mark.parametrize("text", HOSTILE)
def test_a_markdown_reader_gets_every_hostile_text_as_it_is(render: Callable[[str], str], text: str) -> None:
    code = {"code"} if text in ADDRESSES else set()
    assert read(render(render_document([Paragraph(text)], "markdown"))) == (shown(text), {"p"} | code)
    assert read(render(render_document([Bullets((text, text))], "markdown"))) == (
        f"{shown(text)} {shown(text)}",
        {"ul", "li"} | code,
    )
    assert read(render(render_document([Heading(text)], "markdown"))) == (shown(text), {"h3"} | code)


@pytest.mark.parametrize("render", [by_commonmark, by_python_markdown])
@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("requests to http://127.0.0.1:8000/, as fast", "requests to `http://127.0.0.1:8000/`, as fast"),
        ("see (https://a.b/c?d=$e&f=~g_h_#i).", "see (`https://a.b/c?d=$e&f=~g_h_#i`)."),
        ("redis://u:<hidden>@h/0", "redis:&#47;/u:&lt;hidden&gt;@h/0"),
        ("ask ops@example.com or www.a.b", "ask `ops@example.com` or `www.a.b`"),
        ("4x4@gthread", "4x4@gthread"),
        ("`http://a.b`", "\\`http:&#47;/a.b\\`"),
        ("http://a`b", "http:&#47;/a\\`b"),
    ],
)
def test_an_address_can_be_read_in_markdown_and_is_no_link(
    render: Callable[[str], str], text: str, source: str
) -> None:
    page = render_document([Paragraph(text)], "markdown")

    assert page == f"{source}\n"
    found, tags = read(render(page))
    assert found == text
    assert tags <= {"p", "code"}


def test_an_address_in_a_strong_paragraph_or_a_note_is_shown_as_it_is() -> None:
    for block, tags in (
        (Paragraph("http://a.b/c", True), {"p", "strong", "code"}),
        (Note("http://a.b/c"), {"blockquote", "p", "strong", "code"}),
    ):
        for render in (by_commonmark, by_python_markdown):
            found, found_tags = read(render(render_document([block], "markdown")))

            assert (found.removeprefix("Note: "), found_tags) == ("http://a.b/c", tags)


@given(TEXT)
def test_a_markdown_reader_gets_every_text_as_it_is(text: str) -> None:
    for block, tags in (
        (Paragraph(text), {"p"}),
        (Note(text), {"blockquote", "p", "strong"}),
        (Heading(text), {"h3"}),
    ):
        found, found_tags = read(by_commonmark(render_document([block], "markdown")))

        assert found.removeprefix("Note: ") == shown(text).removeprefix("Note: ")
        assert found_tags - {"code"} == tags


@given(TEXT)
@pytest.mark.parametrize("fmt", ["html", "confluence"])
def test_html_and_confluence_are_well_formed_and_show_every_text_as_it_is(fmt: str, text: str) -> None:
    names = 'xmlns:ac="urn:ac" xmlns:ri="urn:ri"'
    blocks = [
        Paragraph(text),
        Paragraph(text, True),
        Note(text),
        Bullets((text,)),
        Code((text,)),
        Heading(text),
    ]
    for block in blocks:
        root = ElementTree.fromstring(f"<page {names}>{render_document([block], fmt)}</page>")
        all_text = "".join(root.itertext()).strip().removeprefix("Note: ").removeprefix("bash")

        assert " ".join(all_text.split()) == shown(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_docutils_gets_every_hostile_text_as_it_is_without_a_warning(text: str) -> None:
    core = module_or_skip("docutils.core")
    nodes = module_or_skip("docutils.nodes")
    strict = {"report_level": 1, "halt_level": 1, "warning_stream": False}
    blocks = [
        Heading("title", 2), Paragraph(text), Bullets((text, text)), Note(text), Heading(text), Code((text,)),
        Paragraph(text),
    ]  # fmt: skip

    tree = core.publish_doctree(render_document(blocks, "rst"), settings_overrides=strict)

    kinds = (nodes.paragraph, nodes.rubric, nodes.literal_block)
    found = [node.astext() for node in tree.findall(lambda node: isinstance(node, kinds))]
    assert [" ".join(one.split()) for one in found] == [shown(text)] * 7
    markup = (
        nodes.reference,
        nodes.emphasis,
        nodes.strong,
        nodes.literal,
        nodes.raw,
        nodes.comment,
        nodes.target,
    )
    assert not list(tree.findall(lambda node: isinstance(node, markup)))


def test_asciidoctor_gets_every_hostile_text_as_it_is() -> None:
    program = shutil.which("asciidoctor")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("asciidoctor is not installed")
        pytest.skip("asciidoctor is not installed")
    texts = [text for text in HOSTILE if shown(text)]
    blocks = [
        block for text in texts for block in (Paragraph(text), Bullets((text,)), Code((text,)), Note(text))
    ]
    done = subprocess.run(
        [program, "--embedded", "--failure-level=INFO", "-o", "-", "-"],
        input=render_document(blocks, "asciidoc"), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    places = r"<p>(.*?)</p>|<code[^>]*>(.*?)</code>|<td class=\"content\">\n(.*?)\n</td>"
    found = re.findall(places, done.stdout, re.DOTALL)
    plain = [read("".join(groups)) for groups in found]
    assert [typographic(text) for text, _ in plain] == [
        typographic(shown(text)) for text in texts for _ in range(4)
    ]
    assert {tag for _, tags in plain for tag in tags} == set()


def typographic(text: str) -> str:
    """Without what Asciidoctor makes of apostrophes, dots, arrows and the like, which is no markup."""
    for fine, plain in (("\u2019", "'"), ("\u2026\u200b", "..."), ("\u00a9", "(C)"), ("\u2192", "->")):
        text = text.replace(fine, plain)
    return text


@pytest.mark.parametrize("fmt", PAGE_FORMATS)
def test_every_block_ends_its_line_and_stands_alone(fmt: str) -> None:
    blocks = [
        Heading("a"),
        Paragraph("b"),
        Note("c"),
        Bullets(("d", "e")),
        Code(("f", "g")),
        Picture("h.svg", "i"),
    ]

    alone = [render_document([block], fmt) for block in blocks]

    assert render_document(blocks, fmt) == "\n".join(alone)
    assert all(text.endswith("\n") and not text.endswith("\n\n") for text in alone)


@pytest.mark.parametrize("text", ["a{code}b", "a{noformat}b", "{code}{noformat}"])
def test_code_of_jira_does_not_end_before_its_end(text: str) -> None:
    rendered = render_document([Code((text,))], "jira")

    if "{code}" not in text:
        assert rendered == f"{{code:bash}}\n{text}\n{{code}}\n"
    elif "{noformat}" not in text:
        assert rendered == f"{{noformat}}\n{text}\n{{noformat}}\n"
    else:
        assert rendered == "bq. \\{code\\}\\{noformat\\}\n"


@pytest.mark.parametrize("fmt", ["markdown", "asciidoc"])
def test_a_fence_is_longer_than_any_in_its_code(fmt: str) -> None:
    fence = {"markdown": "```", "asciidoc": "----"}[fmt]
    lines = render_document([Code(("a", fence, "b"))], fmt).splitlines()

    assert lines.count(fence) == 1
    assert lines[-1] == fence + fence[0]


@pytest.mark.parametrize(
    "word", ["a", "a b", "it's", "$HOME", "", "a\nb", "\t'\\", "\x1b[31m", "\x7f\u202e\U000e0001", "é"]
)
def test_bash_reads_each_word_as_it_was(word: str) -> None:
    result = shell_line(["printf", "%s", word])

    assert result.isprintable()
    assert subprocess.run(["bash", "-c", result], capture_output=True, check=True).stdout == word.encode()


def test_variables_stand_before_a_command() -> None:
    assert shell_line(["a", "b c"], {"X": "1 2"}) == wording("compare.command-with-quotes")
    assert shell_word("\ud800\n") == "$'?\\n'"
