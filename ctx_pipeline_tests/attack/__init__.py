"""Attacks on a store: damage, faults, kills, hostile words; each trial ends in what survived."""
