"""The records that the page is made of."""
