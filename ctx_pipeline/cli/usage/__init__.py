"""``ctx usage``, ``ctx explain`` and ``ctx prices``."""
