// Package command is the command line of the oracle.
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"grovemigrator/oracle/layout"
)

const usage = `usage: oracle COMMAND
  layout              the layout of every type reachable from a pod template, as JSON
  hash                JSON Lines in, one line of hashes out for each
  bench               templates in, nanoseconds for one legacy hash out
Input lines: {"id", "input": {"labels", "annotations", "podSpec", "priorityClassName"}} or {"id", "pcs": PodCliqueSet}.`

// Main runs one command and ends the process with 1 if it failed.
func Main() {
	useUTC()
	if err := run(strings.Join(os.Args[1:], " "), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func run(command string, in io.Reader, out io.Writer) error {
	switch command {
	case "layout":
		found, err := layout.Of(reflect.TypeFor[corev1.PodTemplateSpec]())
		return errors.Join(err, json.NewEncoder(out).Encode(found))
	case "hash":
		return answer(in, out, templateHashes)
	case "bench":
		return bench(in, out)
	default:
		return errors.New(usage)
	}
}

// useUTC fixes what a decoded time prints: the local time zone is part of the text, and is filled in
// only when it is first used.
func useUTC() {
	_ = os.Setenv("TZ", "UTC")
	_ = time.Now().Local().String()
}
