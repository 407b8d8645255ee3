"""Extended virtual synchrony over a Totem ring (1994)."""
