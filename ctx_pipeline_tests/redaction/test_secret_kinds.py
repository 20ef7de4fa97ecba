"""Kinds of secrets that rule sets of the field and real text know, at the places and under the forms in which text holds them."""

from __future__ import annotations

import random

import pytest

from ctx_pipeline.redaction import Redactor
from ctx_pipeline_tests.factories.secret_kinds import KINDS, leaks

REDACTOR = Redactor()
_LEAST_PART = 12
"""letters; a shorter end of a secret opens nothing"""
LEAST = 0.98
"""part of the pairs of kind and form in which nothing of the secret may be left"""


@pytest.mark.feature("redaction.kinds")
def test_nearly_every_kind_is_replaced_in_every_form_and_all_of_them_in_a_prompt() -> None:
    pairs, left = leaks(REDACTOR)

    assert pairs > 3_000
    assert [leak for leak in left if leak[1] == "prompt"] == []
    assert 1 - len(left) / pairs >= LEAST, left


@pytest.mark.feature("redaction.broken-line")
def test_of_a_key_that_a_line_break_parts_anywhere_neither_part_is_left() -> None:
    pairs = 0
    left: list[tuple[str, str]] = []
    for kind in KINDS:
        for number in range(8 if kind.shaped else 0):
            rng = random.Random(f"{kind.name} {number}")
            planted = kind.draw(rng)
            if "\n" in planted.secret:
                continue
            at = rng.randint(max(4, len(planted.secret) // 4), len(planted.secret) - 4)
            parts = planted.secret[:at], planted.secret[at:]
            text = planted.text.replace(planted.secret, "\n".join(parts))
            pairs += 1
            kept = REDACTOR.redact(text) if REDACTOR.suspects([text]) else text
            if any(len(part) >= _LEAST_PART and part in kept for part in parts):
                left.append((kind.name, kept))

    assert pairs > 900
    assert 1 - len(left) / pairs >= LEAST, left


@pytest.mark.feature("redaction.kinds")
def test_a_key_of_new_relic_is_replaced_wherever_an_underscore_stands_in_it() -> None:
    kind = next(kind for kind in KINDS if kind.name == "new relic ingest")
    drawn = [kind.draw(random.Random(number)) for number in range(200)]

    assert [one.secret for one in drawn if one.secret in REDACTOR.redact(one.text)] == []


@pytest.mark.feature("redaction.line-below")
@pytest.mark.parametrize(
    "text",
    [
        "Password:\nplease enter it again9",
        "password: |\n  choose one with 8 signs",
        "- name: PASSWORD_FILE\n  value: /run/secrets/db1",
        '{"name": "password", "value": "string"}',
        '{\n  "name": "api_key",\n  "value":\n    "your-key-here-123"\n}',
        "reset_password\npbkdf2_sha256\n",
        "refresh token\n3f786850e387550fdab836ed7e6dc881de23001b\n",
        "API key:\nsee docs/keys2/readme3.md",
        "TOKEN = (\n    read_token(path2)\n)",
        "kubeadm join 10.2.3.4:6443 --token $TOKEN \\\n  --discovery-token-ca-cert-hash sha256:0a",
    ],
)
def test_what_stands_below_a_name_and_is_no_secret_stays(text: str) -> None:
    assert REDACTOR.redact(text) == text


@pytest.mark.feature("redaction.line-below")
def test_a_token_of_kubeadm_is_replaced_wherever_a_line_ends_inside_of_it() -> None:
    planted = next(kind for kind in KINDS if kind.name == "kubeadm").draw(random.Random(2))
    token = planted.text.split("--token ")[1].split(" ")[0]
    for at in range(1, len(token)):
        for between in ("\n", "\r\n", "\\\n  "):
            kept = REDACTOR.redact(planted.text.replace(token, token[:at] + between + token[at:]))
            assert kept.startswith("kubeadm join 10.2.3.4:6443 --token [REDACTED:")
            assert kept.endswith("] \\\n\t--discovery-token-ca-cert-hash sha256:0a")


@pytest.mark.feature("redaction.broken-line")
@pytest.mark.parametrize(
    "after", ["next=1", "internationalization", "docs/guide/readme.md", "SK2", "the words go on here", "deploy-to-production-2"]
)
def test_the_line_after_a_whole_key_stays(after: str) -> None:
    for name in ("github classic", "anthropic", "stripe", "slack bot"):
        planted = next(kind for kind in KINDS if kind.name == name).draw(random.Random(name))
        text = f"{planted.secret}\n{after}"
        assert REDACTOR.redact(text).endswith(f"]\n{after}")
