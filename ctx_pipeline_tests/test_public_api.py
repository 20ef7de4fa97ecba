"""The names that people import."""

from __future__ import annotations

import typing
from collections.abc import Callable

import pytest

import ctx_pipeline


@pytest.mark.feature("package.public-names")
@pytest.mark.parametrize("name", ctx_pipeline.__all__)
def test_every_public_name_is_importable_and_documented(name: str):
    value = getattr(ctx_pipeline, name)

    # an alias of a function's type has no docstring of its own
    assert name == "__version__" or typing.get_origin(value) is Callable or value.__doc__


@pytest.mark.feature("package.public-names")
def test_what_the_context_page_names_can_be_imported():
    names = """
        AmbiguousName EmbedFn InvalidArgument InvalidMessage InvalidSelector MessageFilter MetricsCallback NothingThere
        ReadOnlyHistory SchemaTooNew StoreDamaged SummarizerCallback UnknownSnapshot deterministic_sort_key
    """

    assert set(names.split()) <= set(ctx_pipeline.__all__)
    assert issubclass(ctx_pipeline.UnknownSnapshot, KeyError)
    assert issubclass(ctx_pipeline.InvalidMessage, TypeError)


@pytest.mark.feature("package.public-names")
def test_all_is_sorted_and_an_unknown_name_is_an_attribute_error():
    assert ctx_pipeline.__all__ == sorted(ctx_pipeline.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ctx_pipeline.nonsense
