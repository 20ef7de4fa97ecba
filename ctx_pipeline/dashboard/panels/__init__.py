"""One file a panel: each declares one function from page data to HTML with ``@panel``."""
