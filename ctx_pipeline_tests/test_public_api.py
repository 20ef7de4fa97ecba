"""The names that people import."""

from __future__ import annotations

import pytest

import ctx_pipeline


@pytest.mark.feature("package.public-names")
@pytest.mark.parametrize("name", ctx_pipeline.__all__)
def test_every_public_name_is_importable_and_documented(name: str):
    value = getattr(ctx_pipeline, name)

    assert name == "__version__" or value.__doc__


@pytest.mark.feature("package.public-names")
def test_all_is_sorted_and_an_unknown_name_is_an_attribute_error():
    assert ctx_pipeline.__all__ == sorted(ctx_pipeline.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ctx_pipeline.nonsense
