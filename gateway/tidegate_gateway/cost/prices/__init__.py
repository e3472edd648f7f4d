"""Dated prices, as TOML."""
