"""One command for all programs of this folder: their names, their options, their exit status."""
