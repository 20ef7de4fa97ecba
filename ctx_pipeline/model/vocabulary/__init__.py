"""English words for what looks for words: irregular forms, and words that developers use for one another."""
