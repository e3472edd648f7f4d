"""Links: what they mirror, and how topics, groups and ids change sides."""
