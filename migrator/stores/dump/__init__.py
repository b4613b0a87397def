"""A file that kubectl printed."""
