"""Which secrets are worth a word: those that may open something, each once."""

from __future__ import annotations

import random

import pytest

from ctx_pipeline.redaction import Redactor
from ctx_pipeline.redaction.detectors import DETECTORS
from ctx_pipeline.redaction.liveness import PUBLIC, is_live

KEY = "sk_live_" + "9fQ2mZr7Lw4XbT8kVn3Y"
SHOWN = {
    "a fixture": "    client = Client(password='s3cret!99')",
    "a default": "DATABASE_URL=postgres://postgres:postgres7@localhost:5432/app",
    "a service of compose": "url = 'mysql://root:V7qk2Lm9Zx@db:3306/shop'",
    "documentation": f'For example: export STRIPE_KEY="{KEY}"',
    "what not to do": f"// DON'T capture:\nerror: API_KEY={KEY}",
    "a test": f'def test_keys():\n    api_key = "{KEY}"',
    "test mode of the provider": "stripe listen --api-key sk_test_9fQ2mZr7Lw4XbT8kVn3Y",
    "the maker's own example": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "the id of a key": "AWS_ACCESS_KEY_ID=AKIA2MZR7LWXBTQKVNYF",
    "a row of signs": 'github = "ghp_0123456789abcdefghij0123456789ABCDEF"',
    "a placeholder": "curl -u admin:changeme99 https://shop.internal/api",
}


def _found(text: str) -> list[tuple[str, bool]]:
    return [(name, is_live(name, text, start, end)) for name, start, end in Redactor().find(text)]


@pytest.mark.feature("redaction.live")
@pytest.mark.parametrize("case", SHOWN)
def test_examples_defaults_ids_and_test_values_are_replaced_and_not_shouted(case):
    found = _found(SHOWN[case])

    assert found, "it is still replaced"
    assert not any(live for _, live in found)


@pytest.mark.feature("redaction.live")
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.name)
def test_a_drawn_secret_of_every_kind_is_live_where_it_is_used(detector):
    rng = random.Random(7)
    seen = []
    for _ in range(20):
        text, secret = detector.plant(rng)
        text = text.replace("example.test", "shop.internal").replace("_test_", "_live_")
        seen.append(any(live for _, live in _found(text)))
        assert secret.rpartition("_")[2] not in Redactor().redact(text)

    assert sum(seen) == 0 if detector.name in PUBLIC else sum(seen) >= 18


@pytest.mark.feature("redaction.live")
def test_what_is_read_from_a_file_of_tests_or_documentation_is_an_example():
    text = f"STRIPE_KEY={KEY}"
    ((name, start, end),) = Redactor().find(text)

    assert is_live(name, text, start, end, '{"file_path": "/home/ada/shop/.env"}')
    assert not is_live(name, text, start, end, '{"file_path": "/home/ada/shop/tests/fixtures/env"}')
    assert not is_live(name, text, start, end, '{"file_path": "/home/ada/shop/docs/setup.md"}')
