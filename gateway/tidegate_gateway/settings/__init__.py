"""Where settings come from, and which of them are this gateway's."""
