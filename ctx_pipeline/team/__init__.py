"""Many machines, one team: what leaves a machine, what a hub makes of it, and what comes back. Needs the extra ``team``."""
