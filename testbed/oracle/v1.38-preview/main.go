// Command oracle answers with the hashes of k8s.io/api v0.38.0-alpha.0.
package main

import "grovemigrator/oracle/command"

func main() { command.Main() }
