"""Repository and project of a session."""

from __future__ import annotations

import pytest

from ctx_pipeline.model.repository_names import project_of, repository_of


@pytest.mark.feature("normalize.repository")
@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://github.com/acme/shop.git", "github.com/acme/shop"),
        ("https://user:token@github.com/acme/shop", "github.com/acme/shop"),
        ("git@github.com:acme/shop.git", "github.com/acme/shop"),
        ("ssh://git@example.org:2222/acme/shop.git/", "example.org:2222/acme/shop"),
        ("https://example.org/shop?token=abc", "example.org/shop"),
        ("/home/dev/shop", "/home/dev/shop"),
        (r"C:\work\shop", r"C:\work\shop"),
        ("", None),
        (None, None),
    ],
)
def test_a_remote_is_one_identity_in_all_spellings_and_without_credentials(remote, expected):
    assert repository_of(remote) == expected


@pytest.mark.feature("normalize.project")
@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("github.com/acme/shop", "shop"),
        ("/home/dev/shop/", "shop"),
        (r"C:\work\shop", "shop"),
        ("C:\\", "unknown"),
        ("/", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_project_is_the_last_component(repository, expected):
    assert project_of(repository) == expected
