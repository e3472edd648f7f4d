"""The work of the commands that examine a machine, a store or objects."""
