"""A team of three made-up members over the sample sessions, in one folder: to look at a hub before anybody joins one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import ctx_pipeline
from ctx_pipeline import discovery
from ctx_pipeline.pipeline.facts import make_facts
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
from ctx_pipeline.team.membership import join
from ctx_pipeline.team.publish import publish

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

NAMES = ("ann", "bob", "eve")
BUCKET = "bucket"


def sample_team(settings: Settings, folder: Path) -> tuple[Path, dict[str, int]]:
    """Make the team below a folder and return its bucket and the sessions that each member published; again, it adds nothing.

    Each host with sample sessions has a member of its own, and the last member has all of
    them: what that one and another member both have counts once.
    """
    samples = Path(ctx_pipeline.__file__).parent / "samples"
    homes = {key: (samples / key,) for key in sorted(discovery.hosts()) if (samples / key).is_dir()}
    shares = [{key: roots} for key, roots in homes.items()][: len(NAMES) - 1]
    folder = folder.expanduser().absolute()
    published = {}
    for name, roots in zip(NAMES, [*shares, homes], strict=False):
        own = replace(settings, home=folder / "members" / name, demo_roots=roots)
        join(own, str(folder / BUCKET), name=name, machine="laptop", share=("facts", "lessons"))
        with open_store(own) as store:
            sync(store, own)
            make_facts(store, own)
            publish(store, own)
            published[name] = len(store.ledger.sessions())
    return folder / BUCKET, published
