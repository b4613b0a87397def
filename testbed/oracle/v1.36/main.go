// Command oracle answers with the hashes of k8s.io/api v0.36.6.
package main

import "grovemigrator/oracle/command"

func main() { command.Main() }
