"""The struct layout that an operator hashes, and its algorithm, both from its own Go binary.

Pure: every function takes a seekable reader and opens no file. The layout is *read* from the Go runtime's own type
data, which a stripped binary keeps. The algorithm is *recognised* by the names and the calls of its functions.
"""
