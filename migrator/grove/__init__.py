"""Grove's objects in a cluster, the trees that they form, and the places where hashes are stored. Pure."""
