"""What a language model is asked about sessions and lessons, and what of its answer is believed."""
