// Package command is the command line of the oracle.
package command

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"

	"grovemigrator/oracle/layout"
)

const usage = `usage: oracle COMMAND
  layout              the layout of every type reachable from a pod template, as JSON
  hash                JSON Lines in, one line of hashes out for each
  bench [-seconds S]  templates in, nanoseconds for one legacy hash out
Input lines: {"id", "input": {"labels", "annotations", "podSpec", "priorityClassName"}} or {"id", "pcs": PodCliqueSet}.`

// Main runs one command and ends the process with 0, 1 (it failed) or 2 (it was called wrongly).
func Main() {
	useUTC()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	err := run(os.Args[1], os.Args[2:], os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func run(command string, arguments []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	seconds := flags.Float64("seconds", 1, "measure for at least this long")
	_ = flags.Parse(arguments)
	switch command {
	case "layout":
		found, err := layout.Of(reflect.TypeFor[corev1.PodTemplateSpec]())
		return errors.Join(err, json.NewEncoder(out).Encode(found))
	case "hash":
		return answer(in, out, templateHashes)
	case "bench":
		return bench(in, out, time.Duration(*seconds*float64(time.Second)))
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
		return nil
	}
}

// useUTC fixes what a decoded time prints: the local time zone is part of the text, and is filled in
// only when it is first used.
func useUTC() {
	_ = os.Setenv("TZ", "UTC")
	_ = time.Now().Local().String()
}
