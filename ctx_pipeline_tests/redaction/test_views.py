"""A secret is found under color, escapes and line prefixes, and what stands around it stays as it was."""

import html
import json
import random
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctx_pipeline.redaction import Redactor, views
from ctx_pipeline.redaction.detectors import DETECTORS
from ctx_pipeline_tests.factories.plants import planted
from ctx_pipeline_tests.factories.secret_kinds import KINDS

REDACTOR = Redactor()
MARK = "MARK"


def _split(secret):
    if secret == MARK:
        return secret
    third, half = len(secret) // 3, len(secret) // 2
    return f"{secret[:third]}\x1b[01;31m\x1b[K{secret[third:half]}\x1b[m\x1b[K{secret[half:]}"


def _lines(prefix):
    return lambda before, secret, after: "\n".join(prefix + line for line in (before + secret + after).split("\n"))


def _figures(text):
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def _json(text, times=1):
    for _ in range(times):
        text = json.dumps(text)[1:-1]
    return text


def _colored(before, secret, after):
    return f"{before}\x1b[32m{secret}\x1b[0m{after}"


WRAPPINGS = {
    "plain": lambda b, s, a: b + s + a,
    "color": _colored,
    "color of grep": lambda b, s, a: f"{b}\x1b[01;31m\x1b[K{s}\x1b[m\x1b[K{a}",
    "color of all": lambda b, s, a: f"x\x1b[1;34m{b}{s}{a}\x1b[0m y",
    "color inside": lambda b, s, a: b + _split(s) + a,
    "color of jq": lambda b, s, a: f"\x1b[34;1m{b}\x1b[0m\x1b[0;32m{s}\x1b[0m{a}",
    "eight-bit color": lambda b, s, a: f"{b}\x9b32m{s}\x9b0m{a}",
    "link": lambda b, s, a: f"{b}\x1b]8;;https://example.test/x\x1b\\{s}\x1b]8;;\x1b\\{a}",
    "color in JSON": lambda b, s, a: _json(_colored(b, s, a)),
    "color in JSON in JSON": lambda b, s, a: _json(_colored(b, s, a), 2),
    "color inside, in JSON": lambda b, s, a: _json(b + _split(s) + a),
    "color as Python writes it": lambda b, s, a: f"{b}\\x1b[32m{s}\\x1b[0m{a}",
    "color as C writes it": lambda b, s, a: f"{b}\\033[32m{s}\\033[0m{a}",
    "color as a shell writes it": lambda b, s, a: f"{b}\\e[32m{s}\\e[0m{a}",
    "color as cat -v shows it": lambda b, s, a: f"{b}^[[32m{s}^[[0m{a}",
    "array of JSON": lambda b, s, a: json.dumps(["a", b + s + a, "b"]),
    "array in JSON in JSON": lambda b, s, a: json.dumps(json.dumps(["a", _colored(b, s, a)])),
    "value in a URL": lambda b, s, a: "https://example.test/?x=1&q%3D" + quote(b + s + a, safe=""),
    "value in a URL in a URL": lambda b, s, a: "to=1%2526q%253D" + quote(quote(b + s + a, safe=""), safe=""),
    "quoted in a URL": lambda b, s, a: "q=%22" + quote(b + s + a, safe="") + "%22",
    "unicode escapes": lambda b, s, a: f"x\\u003d{_figures(b)}{s if s == MARK else _figures(s)}{_figures(a)}",
    "HTML": lambda b, s, a: f"<td>q&quot;{html.escape(b + s + a)}&quot;</td>",
    "numbered": _lines("    12\t"),
    "numbered as Claude Code reads": _lines("    12→"),
    "diff": _lines("+"),
    "grep": _lines("app/one2.py:12:"),
    "context of grep": _lines("app/one2.py-12-"),
    "comment": _lines("# "),
}  # fmt: skip


@pytest.mark.feature("redaction.views")
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_wrapped_secret_of_every_kind_is_replaced_and_nothing_else(wrapping):
    wrap = WRAPPINGS[wrapping]
    texts, expected = [], []
    for detector in DETECTORS:
        text, secret = planted(detector)
        before, after = text.split(secret)
        texts.append(wrap(before, secret, after))
        expected.append(wrap(before, MARK, after).replace(MARK, f"[REDACTED:{detector.name}]"))
    assert [REDACTOR.redact(text) for text in texts] == expected
    assert REDACTOR.suspects(["none", *texts, ""]) == [*range(1, len(texts) + 1)]
    assert not any(map(REDACTOR.clears, texts))


_APART = [(d.name, planted(d).secret) for d in DETECTORS if d.apart]
_BEFORE = (
    *("x\x1b[32m", "2\x1b[01;31m\x1b[K", "x\\u001b[32m", "a^[[1m", "token%3D", "a%22", "a%2522", "x%0A", "v\\u003d", "—\\u2014", "a\\n"),
    *("a&quot;", "a&#61;", "x\x1b7", "\x1b", "x\x1b(B", "7\\x1b[0m", "a%E2%80%94", "12:", "   12→", "one-12-", "+", "-", ">"),
)


@pytest.mark.feature("redaction.views")
@pytest.mark.parametrize("before", _BEFORE)
def test_a_letter_that_belongs_to_an_escape_or_a_prefix_is_no_part_of_a_word(before):
    texts = [f"{before}{secret}\x1b[0m, seen" for _, secret in _APART]
    assert [REDACTOR.redact(text) for text in texts] == [f"{before}[REDACTED:{name}]\x1b[0m, seen" for name, _ in _APART]
    assert REDACTOR.suspects([f"{before}{secret}" for _, secret in _APART]) == [*range(len(_APART))]


@pytest.mark.feature("redaction.views")
@pytest.mark.parametrize("wrap", ["\x1b[0m\n\x1b[32m", "\x1b[0m\r\n", "\n\x1b[K"])
@pytest.mark.parametrize("write", [str, _json])
def test_a_line_that_a_terminal_wrapped_is_read_as_one(wrap, write):
    texts = [write(f"see {secret[: len(secret) // 3]}{wrap}{secret[len(secret) // 3 :]} there") for _, secret in _APART]
    assert [REDACTOR.redact(text) for text in texts] == [f"see [REDACTED:{name}] there" for name, _ in _APART]
    assert REDACTOR.suspects(texts) == [*range(len(texts))]


@pytest.mark.feature("redaction.views")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        *(("[remote]\ntype = sftp\npass = ", "\n"), ("a\npass=", ""), ("a\npassword=", "\n"), ("db:\n  password: |\n    ", "\n")),
        *(("- name: DB_PASSWORD\n  value: ", "\n"), ("The password is:\n\n", "\n\nok"), ("zip -P ", " a.zip a")),
    ],
)
def test_a_sign_beyond_ascii_that_json_writes_before_a_line_hides_no_secret(before, after, times):
    for secret in ("Qx7hK2mZ9pLw3v", "rFxGQexTqMct04"):
        written = _json(_lines("    12→")(before, secret, after), times)

        assert "\\u2192" in written
        assert secret not in REDACTOR.redact(written)
        assert REDACTOR.suspects([written]) == [0]


@pytest.mark.feature("redaction.views")
@pytest.mark.parametrize("times", range(4))
@pytest.mark.parametrize("frame", ["    12→", "app/one.yml:12:", "    12\t"])
def test_a_secret_below_its_name_in_framed_lines_is_hidden_however_often_json_wraps_them(frame, times):
    left = []
    for kind in KINDS:
        drawn = kind.draw(random.Random(kind.name))
        text = "\n".join(frame + line for line in f"apiVersion: v1\n{drawn.text}\nnext: 1".split("\n"))
        for _ in range(times):
            text = json.dumps({"content": text})
        if "\n" not in drawn.secret and drawn.secret in REDACTOR.redact(text):
            left.append(kind.name)
    assert left == []


@pytest.mark.feature("redaction.views")
def test_text_that_holds_no_secret_stays_beside_signs_as_json_writes_them():
    for text in ("12→def pass_value(token):\n12→    return token\n", "→ C:\\new\\table → password: str\n", "✓ 12 pass = 3/4\n"):
        for times in (1, 2):
            assert REDACTOR.redact(_json(text, times)) == _json(text, times)


@pytest.mark.feature("redaction.views")
def test_colored_lines_are_not_read_as_one_where_each_says_enough():
    secret = planted(next(d for d in DETECTORS if d.name == "github-token")).secret
    text = f"\x1b[32m{secret}\x1b[0m\n\x1b[32mnext\x1b[0m\n"
    assert REDACTOR.redact(text) == "\x1b[32m[REDACTED:github-token]\x1b[0m\n\x1b[32mnext\x1b[0m\n"


@pytest.mark.feature("redaction.views")
def test_a_word_of_exact_length_ends_where_its_color_ends():
    for name in ("aws-key-id", "npm-token", "twilio-token"):
        text, secret = planted(next(d for d in DETECTORS if d.name == name))
        before = text.split(secret)[0]
        assert REDACTOR.redact(f"{before}\x1b[32m{secret}\x1b[0mabc") == f"{before}\x1b[32m[REDACTED:{name}]\x1b[0mabc"


@pytest.mark.feature("redaction.views")
def test_a_persons_own_pattern_is_found_under_color():
    own = Redactor({"badge": r"BADGE-(?P<s>\d{6})"})
    assert own.redact("BADGE-\x1b[1m12\x1b[0m3456!") == "BADGE-\x1b[1m[REDACTED:badge]!"
    assert own.suspects(["BADGE-\x1b[1m12\x1b[0m3456!"]) == [0]


@pytest.mark.feature("redaction.no-false-alarm")
@pytest.mark.parametrize(
    "text",
    [
        "\x1b[32mtask-list-of-all-the-things-1A\x1b[0m",
        "100%2C sk%2Done, %s %d %ad %h",
        "task%2Dlist%2Dof%2Dall%2Dthe%2Dthings",
        "printf '\\033[1mpassword:\\033[0m %s' \"$PASSWORD\"",
        "C:\\new\\temp\\users\\x41",
        'if (a &amp;&amp; password == "") return;',
        "https://example.test/?next=%2Flogin%3Fuser%3Dme",
        "\x1b[31mpassword\x1b[0m = getpass()",
        "re.compile(r'[^[]+\\x1b\\[[0-9;]*m')",
        "\x1b]0;a title that never ends",
    ],
)
def test_escapes_around_words_make_no_secret_of_them(text):
    assert REDACTOR.redact(text) is text


_PIECES = st.sampled_from(
    (
        *(
            "\x1b[32m",
            "\x1b[m",
            "\x1b",
            "\x1b]0;t\x07",
            "\x1b(B",
            "\\u001b[1m",
            "\\\\x1b[K",
            "\\e[0m",
            "^[[2J",
            "%3D",
            "%2522",
            "%",
            "&quot;",
        ),
        *("&amp;#61;", "\\u003d", "\\\\\\u0022", "\\n", "\\", "\n", "\r\n", "ab", "é", "\x9b1m", "[", "m", ";", "2"),
    )
)


@pytest.mark.feature("redaction.views")
@settings(max_examples=400, deadline=None)
@given(st.lists(_PIECES | st.text(max_size=3), max_size=14).map("".join), st.booleans(), st.randoms(use_true_random=False))
def test_a_span_of_a_view_is_the_span_of_the_text_that_reads_so(text, signs, draw):
    data = text.encode("utf-8", "surrogatepass")
    for view in list(views.readings(data, signs=signs))[:1]:
        places = [view.original(n, n + 1)[0] for n in range(len(view.data))]
        assert places == sorted(places)
        assert all(data[a:b] == view.data[at : at + b - a] for at, (a, b, plain) in zip(view.at, view.pieces, strict=True) if plain)
        for _ in range(8 if view.data else 0):
            start = draw.randrange(len(view.data))
            end = draw.randrange(start + 1, len(view.data) + 1)
            first, after = view.original(start, end)
            part = data[first:after]
            again = next(views.readings(part, signs=signs), None)
            assert (again.data if again else part) == view.data[start:end]


@pytest.mark.feature("redaction.views")
@settings(max_examples=200, deadline=None)
@given(st.lists(_PIECES | st.text(max_size=3), max_size=14).map("".join))
def test_text_without_a_secret_comes_back_as_it_was(text):
    assert REDACTOR.redact(text) is text


_SECRETS = st.sampled_from([text for d in DETECTORS for text in planted(d)])


@pytest.mark.feature("redaction.prefilter")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(_PIECES | _SECRETS, max_size=6).map("".join), max_size=3))
def test_no_hidden_secret_is_passed_over(texts):
    assert set(REDACTOR.suspects(texts)) >= {n for n, text in enumerate(texts) if REDACTOR.find(text)}
    for text in texts:
        once = REDACTOR.redact(text)
        assert REDACTOR.redact(once) == once


@pytest.mark.feature("redaction.unseen")
@pytest.mark.parametrize(
    "unseen",
    ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\\u200b", "\\\n", "\\\r\n", "\\\\\\n"],
    ids=["blank", "joiner", "word joiner", "byte order", "hyphen", "as JSON", "continued", "continued CRLF", "continued as JSON"],
)
def test_a_secret_that_something_unseen_breaks_is_replaced_whole(unseen):
    for detector in DETECTORS:
        text, secret = planted(detector)
        half = len(secret) // 2
        broken = text.replace(secret, secret[:half] + unseen + secret[half:])
        assert REDACTOR.suspects([broken]) == [0], detector.name
        kept = REDACTOR.redact(broken)
        assert secret[:half] not in kept, detector.name
        assert secret[half:] not in kept, detector.name
