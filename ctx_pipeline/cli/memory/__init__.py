"""``ctx memory``, ``ctx methods`` and ``ctx mine``."""
