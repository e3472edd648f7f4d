"""The guards of the APIs, by kind; see guard.py and needs.py."""
