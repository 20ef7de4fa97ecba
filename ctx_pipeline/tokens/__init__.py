"""Counting tokens without a network: encodings, tokenizers, calibration."""
