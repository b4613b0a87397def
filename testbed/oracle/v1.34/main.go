// Command oracle answers with the hashes of k8s.io/api v0.34.3.
package main

import "grovemigrator/oracle/command"

func main() { command.Main() }
