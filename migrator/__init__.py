"""grove-migrator: rewrites Grove's stored pod-template hashes before an operator upgrade."""

__version__ = "0.1.0"
