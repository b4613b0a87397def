"""Grove's CustomResourceDefinitions for the tests, one set per release line, made from Go types of our own."""
