// Command operator is a stand-in for Grove's operator: it has functions of the same names that make the same hashes,
// written from a description of the algorithm, and nothing else.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"grovemigrator/fork/operator/api/core"
	"grovemigrator/fork/operator/internal/controller/common/component/utils"
	"grovemigrator/fork/operator/internal/controller/podcliqueset"
	"grovemigrator/oracle/layout"
)

// question is one line of input, as the oracle takes it.
type question struct {
	ID  string            `json:"id"`
	Set core.PodCliqueSet `json:"pcs"`
}

func main() {
	if len(os.Args) > 1 {
		found, err := layout.Of(reflect.TypeFor[corev1.PodTemplateSpec]())
		if err != nil {
			panic(err)
		}
		_ = json.NewEncoder(os.Stdout).Encode(found)
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var asked question
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts(lines.Bytes(), &asked); err != nil {
			fmt.Println("null")
			continue
		}
		templates := map[string]string{}
		for _, clique := range asked.Set.Spec.Template.Cliques {
			templates[clique.Name] = utils.ComputePCLQPodTemplateHash(clique, asked.Set.Spec.Template.PriorityClassName)
		}
		text, _ := json.Marshal(map[string]any{
			"generationHash": podcliqueset.Generation(&asked.Set), "podTemplateHashes": templates,
		})
		fmt.Println(string(text))
	}
}
