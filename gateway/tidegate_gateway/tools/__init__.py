"""The work of commands that examine a machine, a store or objects, and their findings."""
