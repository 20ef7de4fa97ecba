"""DSPy programs and context rot: the callback, its store, the analysis and the terminal view."""
