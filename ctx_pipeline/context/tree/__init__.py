"""Context trees after PACT 1.0: nodes, places, lifecycle, selectors, and their history."""
