"""What is to be written, and what forbids it. Pure."""
