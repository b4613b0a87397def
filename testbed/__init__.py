"""Real parts for tests and benchmarks: Go programs, an API server, CRDs, and workloads as Grove grows them."""
