"""ISIS: site-to-site links and agreed site views (1985)."""
