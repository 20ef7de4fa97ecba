"""Whether a store is sound: doctor, verification, formats and redactions."""
