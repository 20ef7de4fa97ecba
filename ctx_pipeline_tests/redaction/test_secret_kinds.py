"""Kinds of secrets that rule sets of the field and real text know, at the places and under the forms in which text holds them."""

from __future__ import annotations

import random

import pytest

from ctx_pipeline.redaction import Redactor
from ctx_pipeline_tests.factories.secret_kinds import FORMS, KINDS

REDACTOR = Redactor()
LEAST = 0.98
"""part of the pairs of kind and form in which nothing of the secret may be left"""


@pytest.mark.feature("redaction.kinds")
def test_nearly_every_kind_is_replaced_in_every_form_and_all_of_them_in_a_prompt() -> None:
    leaks: list[tuple[str, str]] = []
    pairs = 0
    for kind in KINDS:
        for name, form in FORMS.items():
            if form.shaped_only and not kind.shaped:
                continue
            planted = kind.draw(random.Random(f"{kind.name} {name}"))
            text = form.write(planted)
            pairs += 1
            kept = REDACTOR.redact(text) if REDACTOR.suspects([text]) else text
            if planted.secret in form.read(kept):
                leaks.append((kind.name, name))

    assert pairs > 3_000
    assert [leak for leak in leaks if leak[1] == "prompt"] == []
    assert 1 - len(leaks) / pairs >= LEAST, leaks
