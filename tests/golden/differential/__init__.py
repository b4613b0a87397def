"""The Python hash against the Go oracle, on inputs that nobody wrote down before."""
