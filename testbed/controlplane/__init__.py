"""A real API server for the tests: the program, the class that runs it, and Grove trees on it."""
