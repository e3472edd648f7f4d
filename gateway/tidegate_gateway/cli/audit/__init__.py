"""`tidegate audit ...`: whether audit logs are whole."""
