"""Verifying: what is wrong with logs and log directories, how bad it is, what a broker does, the next step."""
