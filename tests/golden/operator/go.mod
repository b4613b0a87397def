// Each build brings the requirements of one minor of k8s.io/api with -modfile, see tests/golden/operator_build.py.
module grovemigrator/fork/operator

go 1.24.0
