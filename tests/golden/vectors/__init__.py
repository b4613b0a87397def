"""Golden vectors: inputs of our own, and the hashes that Go gives them under every scheme."""
