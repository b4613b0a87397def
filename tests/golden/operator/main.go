// Command operator is a stand-in for Grove's operator: it links the same libraries and has functions of the same names
// around the hash, and nothing else.
package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"grovemigrator/fork/operator/internal/utils/kubernetes"
)

func main() {
	fmt.Println(kubernetes.ComputeHash(&corev1.PodTemplateSpec{}))
}
