"""Invented secrets, one of each kind that is looked for."""

import random


def planted(detector, seed=7):
    """Return the text and the secret that a detector plants; the same ones for the same seed."""
    return detector.plant(random.Random(seed))
