"""A private key is hidden in every shape in which text shows one; public keys and certificates stay."""

import json
import random
import string

import pytest

from ctx_pipeline.redaction import Redactor

REDACTOR = Redactor()
MARK = "[REDACTED:private-key]"
_BASE64 = string.ascii_letters + string.digits + "+/"


def material(lines=6, width=64, last="Qa1bC2d=", seed=3):
    draw = random.Random(seed)
    return [*("".join(draw.choice(_BASE64) for _ in range(width)) for _ in range(lines)), *([last] if last else [])]


def block(name="RSA PRIVATE KEY", headers=(), **shape):
    return [f"-----BEGIN {name}-----", *headers, *material(**shape), f"-----END {name}-----"]


KINDS = {
    "PKCS 1": block(),
    "PKCS 8": block("PRIVATE KEY"),
    "of one line": block("PRIVATE KEY", lines=1, last=None),
    "encrypted": block(headers=("Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,0011223344556677889900AABBCCDDEE", "")),
    "OpenSSH": block("OPENSSH PRIVATE KEY", width=70),
    "PGP": block("PGP PRIVATE KEY BLOCK", headers=("Version: GnuPG v2", "Comment: mine", ""), width=76, last="=aB1c"),
    "SSH2": ["---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", 'Comment: "mine"', *material(), "---- END SSH2 ENCRYPTED PRIVATE KEY ----"],
}

SHAPES = {
    "plain": "{}".format,
    "numbered": "    12\t{}".format,
    "numbered as Claude Code reads": "    12→{}".format,
    "grep": "keys/prod/id_rsa:12:{}".format,
    "context of grep": "keys/prod/id_rsa-12-{}".format,
    "added": "+{}".format,
    "removed": "-{}".format,
    "unchanged": " {}".format,
    "quoted": "> {}".format,
    "comment": "# {}".format,
    "comment of C": "// {}".format,
    "indented": "      {}".format,
    "log of a container": "app-1  | 2026-11-22T10:00:00Z {}".format,
    "colored": "\x1b[32m+\x1b[m\x1b[32m{}\x1b[m".format,
    "colored by grep": "\x1b[35mid_rsa\x1b[m\x1b[36m:\x1b[m{}".format,
    "source code": '    "{}\\n"'.format,
}


def clear(lines, text):
    """Return the lines of key material that still stand in a text."""
    return [line for line in lines if len(line) > 8 and "KEY" not in line and ":" not in line and line[-24:] in text]


@pytest.mark.feature("redaction.private-keys")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_whole_key_is_replaced_from_its_first_line_to_its_last(kind, shape):
    form, lines = SHAPES[shape], KINDS[kind]
    first, _, rest = form("KEY").partition("KEY")
    text = "\n".join(["$ show it", *map(form, lines), "", "Done, that was it."])
    expected = f"$ show it\n{first}{MARK}{rest}\n\nDone, that was it."
    assert REDACTOR.redact(text) == expected
    assert REDACTOR.suspects([text]) == [0]
    written = json.dumps({"output": text})
    assert json.loads(REDACTOR.redact(written)) == {"output": expected}


@pytest.mark.feature("redaction.private-keys")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("kind", "cut"),
    [
        *((kind, cut) for kind in KINDS for cut in ("end", "inside the last line")),
        # of a key of one line nothing is left without its begin
        *((kind, cut) for kind in KINDS if kind != "of one line" for cut in ("begin", "begin and two lines")),
    ],
)
def test_what_is_left_of_a_cut_key_is_replaced(kind, shape, cut):
    lines = KINDS[kind]
    body = next(n for n, line in enumerate(lines) if n and len(line) >= 64)
    left = {
        "end": lines[:-1],
        "inside the last line": [*lines[:-3], lines[-3][:20]] if len(lines) - body > 4 else lines[:-1],
        "begin": lines[body:],
        "begin and two lines": lines[body + 2 :],
    }[cut]
    text = "\n".join(["$ show it", *map(SHAPES[shape], left), "", "Done, that was it."])
    for write in (str, json.dumps, lambda t: json.dumps([json.dumps({"a": t})])):
        redacted = REDACTOR.redact(write(text))
        assert clear(left, redacted) == []
        assert redacted.count(MARK) == 1
        assert "$ show it" in redacted
        assert "Done, that was it." in redacted
        if write is not str:
            json.loads(redacted)


@pytest.mark.feature("redaction.private-keys")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("part", [slice(None), slice(None, -1), slice(-5, None)])
def test_lines_in_an_array_of_json_are_a_key_and_the_array_stays_one(kind, indent, part):
    lines = KINDS[kind][part]
    if not clear(lines, "\n".join(lines)):
        pytest.skip("no line of this key is in that part")
    for value in (lines, [{"n": number, "line": line} for number, line in enumerate(lines)]):
        for text in (json.dumps({"before": "a", "key": value, "z": "b"}, indent=indent), json.dumps(json.dumps(value, indent=indent))):
            redacted = REDACTOR.redact(text)
            assert clear(lines, redacted) == []
            assert MARK in redacted
            json.loads(redacted)


@pytest.mark.feature("redaction.private-keys")
def test_a_putty_key_loses_its_private_part():
    public, private = material(4), material(8, seed=9)
    head = ["PuTTY-User-Key-File-3: ssh-rsa", "Encryption: none", "Comment: mine", "Public-Lines: 5", *public]
    text = "\n".join([*head, "Private-Lines: 9", *private, f"Private-MAC: {'0a1b2c3d' * 8}", "next"])
    assert REDACTOR.redact(text) == "\n".join([*head, MARK, "next"])
    assert clear(private, REDACTOR.redact(text.split("Private-MAC")[0])) == []


@pytest.mark.feature("redaction.private-keys")
@pytest.mark.parametrize("space", [" ", "%20", "+"])
def test_a_key_in_a_variable_or_a_url_is_one_line(space):
    joined = " ".join(block()).replace(" ", space)
    assert REDACTOR.redact(f"TLS={joined}; next") == f"TLS={MARK}; next"
    folded = "\\n".join(block())
    assert REDACTOR.redact(f"TLS='{folded}\\n' next") == f"TLS='{MARK}\\n' next"


@pytest.mark.feature("redaction.no-false-alarm")
@pytest.mark.parametrize(
    "text",
    [
        "\n".join(block("PUBLIC KEY")),
        "\n".join(block("CERTIFICATE")),
        "\n".join(block("PGP PUBLIC KEY BLOCK")),
        "\n".join(block("RSA PUBLIC KEY")[3:]),
        "ssh-rsa " + "".join(material(4, last=None)),
        'if text.startswith("-----BEGIN PRIVATE KEY-----"): parse(text)',
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE...\n-----END RSA PRIVATE KEY-----\nsee /usr/local/share/ca-certificates/extra/Root1.crt",
        "grep -r 'BEGIN PRIVATE KEY' .\ncommit 1f0e5d2c3b4a59687f6e5d4c3b2a190817263544\n",
        "-----BEGIN PRIVATE KEY-----\nsha256: " + "1f0e5d2c" * 8,
    ],
)
def test_what_is_public_or_only_talks_of_a_key_stays(text):
    assert REDACTOR.redact(text) is text


@pytest.mark.feature("redaction.private-keys")
def test_what_stands_between_two_keys_stays():
    text = "\n".join([*block(), "one word between", *block("PUBLIC KEY"), *block("EC PRIVATE KEY", lines=2)])
    assert REDACTOR.redact(text) == "\n".join([MARK, "one word between", *block("PUBLIC KEY"), MARK])
