"""What Grove keeps in a cluster: objects, the trees they form, and the places where hashes are stored. Pure."""
