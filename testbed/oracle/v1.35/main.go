// Command oracle answers with the hashes of k8s.io/api v0.35.5.
package main

import "grovemigrator/oracle/command"

func main() { command.Main() }
