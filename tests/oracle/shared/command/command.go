// Package command is the command line of the oracle.
package command

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"grovemigrator/oracle/layout"
)

const usage = "usage: oracle layout"

// Main runs one command and ends the process with 0, 1 (it failed) or 2 (it was called wrongly).
func Main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	var err error
	switch os.Args[1] {
	case "layout":
		err = printLayout(os.Stdout)
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func printLayout(out io.Writer) error {
	found, err := layout.Of(reflect.TypeFor[corev1.PodTemplateSpec]())
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]any{
		"types":  found.Types,
		"custom": slices.Sorted(maps.Keys(found.Custom)),
	})
}
