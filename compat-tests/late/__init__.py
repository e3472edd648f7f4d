"""Administrative requests to a stopped gateway, which act late or not at all."""
