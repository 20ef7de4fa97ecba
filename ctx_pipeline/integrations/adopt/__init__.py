"""Taking over what another archive or store holds: planned, checked, captured, verified."""

from ctx_pipeline.integrations.adopt.foreign import Entry, entries_of
from ctx_pipeline.integrations.adopt.taking import Adopted, adopt, plan

__all__ = ["Adopted", "Entry", "adopt", "entries_of", "plan"]
