"""The selector language of PACT 1.0: parsed by a grammar, evaluated over a view."""
