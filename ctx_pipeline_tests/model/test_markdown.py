"""Text of others inside Markdown brings nothing to life, in a renderer that allows HTML."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ctx_pipeline.model.display import fenced, inline, prose, table_text

_RENDERERS = (MarkdownIt("commonmark", {"html": True}), MarkdownIt("gfm-like", {"html": True, "linkify": False}))
for _renderer in _RENDERERS:
    _renderer.validateLink = lambda _: True  # as renderers do that look at no scheme
_LIVE = frozenset({"html_block", "html_inline", "image"})


def live(text):
    """Return what a reader's program would obey: HTML, images, and links that lead elsewhere than to the web."""
    found = []
    for renderer in _RENDERERS:
        tokens = renderer.parse(text)
        for token in (*tokens, *(child for t in tokens for child in t.children or ())):
            if token.type in _LIVE:
                found.append(token.content)
            elif token.type == "link_open" and not token.attrs["href"].startswith(("http://", "https://")):
                found.append(token.attrs["href"])
    return found


HOSTILE = [
    "<script>alert(1)</script>",
    "a <img src=x onerror=alert(1)> b",
    "[a](javascript:alert(1))",
    "[a](JaVa\\script:alert(1))",
    "[a](<javascript:alert(1)>)",
    "[a](&#106;avascript:alert(1))",
    "[a](data:text/html;base64,PHN2Zz4=)",
    "[a][b]\n\n[b]: javascript:alert(1)",
    "[b]\n\n  [b]:\njavascript:alert(1)",
    "<javascript:alert(1)>",
    "<!-- hidden orders -->",
    "<?php x ?>",
    "<![CDATA[x]]>",
    "![a](https://tracker.test/x.png)",
    "![a][b]\n\n[b]: https://tracker.test/x.png",
    "[![a](https://tracker.test/x.png)](file:///etc/passwd)",
    "- x\n  ```\n<script>alert(1)</script>\n```",
    "> ```\n<script>alert(1)</script>\n```",
    "- ```\n<script>alert(1)</script>\n```\n<b>",
    "```\nx\n   ````  \n<script>alert(1)</script>",
    "~~~\n```\n~~~\n<script>alert(1)</script>\n```",
    "``` a`b\n<script>alert(1)</script>\n```",
    "one ` two\n`<script>alert(1)</script>`",
    "\\`<script>alert(1)</script>`",
    "\\\\`` ` `<b>`` <i>`",
    "| a | b |\n|---|---|\n| `x | <script>alert(1)</script>` |",
    "| a | b |\n|---|---|\n| `x | y` and `<b>` |",
    "<b>x\\|",
    "```\r<script>\r```\r<script>alert(1)</script>",
    "    ```\n<script>alert(1)</script>",
    "<details>\n\n```\n</details>\n<script>alert(1)</script>\n```",
]


@pytest.mark.feature("export.inert-markdown")
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    assert live(prose(text)) == []
    assert live(f"## {inline(text)} {inline(text)}\n\n- x: {inline(text)}") == []
    assert live(f"| a | b |\n|---|---|\n| {table_text(text)} | {table_text(text)} |") == []
    assert live("\n".join(fenced(text))) == []


@pytest.mark.feature("export.inert-markdown")
def test_what_is_tried_is_alive_where_nothing_is_done():
    assert [text for text in HOSTILE if not live(text)] == []


_PIECES = st.sampled_from(
    [
        *(
            "`",
            "``",
            "```",
            "~~~",
            "\n",
            "\n\n",
            "  ",
            "    ",
            "- ",
            "> ",
            "1. ",
            "|",
            "\\",
            "<b>",
            "<script>x</script>",
            "<!-- -->",
            "<a href=x>",
        ),
        *(
            "[a](javascript:x)",
            "](",
            "[",
            "]: javascript:x",
            "![",
            "\t",
            "x",
            "*",
            "_",
            "|---|---|\n",
            "| a | b |\n",
            "<https://a.test>",
            "\r",
        ),
    ]
)


@pytest.mark.feature("export.inert-markdown")
@settings(max_examples=1500, deadline=None)
@given(st.lists(_PIECES, max_size=14).map("".join))
def test_no_mixture_of_signs_comes_to_life(text):
    assert live(prose(text)) == []
    assert (
        live(f"# {inline(text)} {inline(text)}\n\n| {table_text(text)} | {table_text(text)} |\n|---|---|\n| {table_text(text)} | x |") == []
    )
    assert live("\n".join(["- a", "", *fenced(text), "", "b"])) == []


@pytest.mark.feature("export.inert-markdown")
@pytest.mark.parametrize(
    "text",
    [
        "# Title\n\n- a\n- b\n\n1. **bold** and `List<String>` and a < b",
        "```html\n<script>alert(1)</script>\n```",
        "see [the guide](https://example.test/a?b=c) and https://example.test",
        "| a | b |\n|---|---|\n| 1 | `x` |",
        "one ``` two",
    ],
)
def test_ordinary_markdown_is_left_as_it_is(text):
    assert prose(text) == text


@pytest.mark.feature("export.inert-markdown")
def test_code_in_a_list_is_shown_as_code_at_the_margin():
    assert prose("1. run\n   ```sh\n   x <y>\n   ```\n2. done") == "1. run\n```sh\n   x <y>\n   ```\n2. done"
