"""Kinds of secrets that rule sets of the field and real text know, at the places and under the forms in which text holds them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ctx_pipeline.redaction import Redactor
from ctx_pipeline_tests.bench.bench_secrets import pairs_line
from ctx_pipeline_tests.factories.secret_kinds import KINDS, leaks

REDACTOR = Redactor()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
_LEAST_PART = 12
"""letters; a shorter end of a secret opens nothing"""
LEAST = 0.98
"""part of the pairs of kind and form in which nothing of the secret may be left"""


@pytest.mark.feature("redaction.kinds")
def test_every_kind_is_replaced_in_every_form() -> None:
    pairs, left = leaks(REDACTOR)

    assert pairs > 3_000
    assert left == []
    assert pairs_line(pairs, left) in PAGE.read_text(), "python -m ctx_pipeline_tests.bench.bench_secrets HOME docs/reliability.md"


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


SECRET = "hT7k!qZp29Lm"
KEY = "q7Hs92kdLLx0PqW31mmZ"


@pytest.mark.feature("redaction.line-below")
@pytest.mark.parametrize(
    "text",
    [
        f"Password\n{SECRET}",
        f"Password\n\n{SECRET}\n",
        f"Username\nbob\nPassword\r\n{SECRET}\r\nURL\n",
        f"Username\nPassword\nbob\n{SECRET}\n",
        f"E-mail\nPassword\nbob@example.com\n{SECRET}\n",
        f"## Admin password\n```\n{SECRET}\n```",
        f"**Password**\n`{SECRET}`\n",
        f"Password\n--------\n{SECRET}\n",
        f"- Password\n- {SECRET}\n",
        f"  12\tPassword\n  13\t{SECRET}\n",
        f"Passwort\n{SECRET}",
        f"Пароль\n{SECRET}",
        f"密码\n{SECRET}",
        f"\x1b[1mPassword\x1b[0m\n{SECRET}\x1b[0m\n",
        json.dumps({"text": f"Password\n{SECRET}\nok"}),
        json.dumps(json.dumps({"text": f"Password\n{SECRET}\nok"})),
        "PASSWORD\nWinter2024!\n",
        f"Access token\n{KEY}\n",
        f"Client secret\n{KEY}\n",
        f"Personal access token\n\n{KEY}\n",
    ],
)
def test_what_stands_below_a_label_without_a_colon_is_replaced(text: str) -> None:
    kept = REDACTOR.redact(text)

    assert REDACTOR.suspects([text]) == [0]
    assert "[REDACTED:labeled-" in kept
    assert not any(secret in kept for secret in (SECRET, KEY, "Winter2024!"))


@pytest.mark.feature("redaction.line-below")
@pytest.mark.parametrize(
    "text",
    [
        "Forgot password\nStep2Confirm\n",
        "to set the new password\nhT7kqZp29Lm\n",
        "Password\n2024-01-05T10:00:00Z\n",
        "Password\nadmin9@example2.com\n",
        "Password\ntest_login2_works.py\n",
        "Password\nhttps://example.test/C3d4E5\n",
        "Password\nAt least 8 characters\n",
        "Password\nChangePassword2Fa\n",
        "password\n123456\n12345678\nqwerty\nabc123\n",
        "Passphrase\nOpenSSH_8.9p1\n",
        "Username\nPassword\nEmail\nPhone1\n",
        "Token\nsha256:0a1b2c3d4e5f60718293\n",
        "Token\nMyClass2Helper3Factory4Bean\n",
        "Secret\nkubernetes-2024-deployment-x1\n",
        "Access token\n3f786850e387550fdab836ed7e6dc881de23001b\n",
        "API token\nv1.24.3-rc2.build77\n",
        "Token\nTokenKind::Ident2Foo3",
        "TOKEN\nbert-base-uncased-v2x3",
        "Password\nTLSv1.2+AES256",
        "## Secret\n\nk8s-secret-v1beta1x-2a",
    ],
)
def test_what_stands_below_a_label_and_was_written_stays(text: str) -> None:
    assert REDACTOR.redact(text) == text


@pytest.mark.feature("redaction.kinds")
def test_key_data_of_a_kubeconfig_is_replaced_also_where_it_begins_with_a_slash() -> None:
    planted = next(kind for kind in KINDS if kind.name == "kubeconfig").draw(random.Random(1))

    for begin in ("/", "a/", "aa"):
        assert planted.secret[2:] not in REDACTOR.redact(planted.text.replace(planted.secret[:2], begin, 1))
