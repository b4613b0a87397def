"""What an operator's own Go binary says: the struct layout that it hashes, and its algorithm.

Pure: every function takes seekable readers, and opens nothing. The layout is *read*: the Go runtime's own type data
has it, stripped or not. The algorithm is *recognised*: by the names of its functions and by what they call.
"""
