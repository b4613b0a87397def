"""The operator's hash as Go computes it: the oracle that every other test trusts."""
