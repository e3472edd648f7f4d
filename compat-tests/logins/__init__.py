"""Client libraries and ways to log in, each pair at work while sessions end and keys change."""
