"""Proposals that another gateway decides: one gateway leads, and appends for many."""
