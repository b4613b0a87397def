// Command oracle answers with the hashes of the k8s.io/api that go.mod requires.
package main

import "grovemigrator/oracle/command"

func main() { command.Main() }
