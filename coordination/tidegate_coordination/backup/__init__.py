"""Copies of the metadata log in the object store, and the way back from them."""
