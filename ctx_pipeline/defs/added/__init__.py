"""Empty: what `dg scaffold defs` adds in a checkout lies here and is loaded with the graph."""
