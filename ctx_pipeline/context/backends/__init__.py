"""Where messages and vectors are kept; stands alone, with SQL of its own."""
