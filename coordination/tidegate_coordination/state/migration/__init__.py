"""Links, the switches of their topics, and what moves of their groups and ids."""
