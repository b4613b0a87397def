// Patcher sends patches that were recorded to an API server, at a given concurrency and without thinking: what
// client-go needs for them is the reference of a run.
//
// It reads JSON Lines of {"path", "accept", "contentType", "body"}; "path" holds the query too, and "body" is the
// patch itself, as a string. It prints one JSON object: patches, seconds, and failures.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

type patch struct {
	Path        string `json:"path"`
	Accept      string `json:"accept"`
	ContentType string `json:"contentType"`
	Body        string `json:"body"`
}

type result struct {
	Patches  int     `json:"patches"`
	Failed   int64   `json:"failed"`
	Seconds  float64 `json:"seconds"`
	FirstErr string  `json:"firstError,omitempty"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster to patch")
	file := flag.String("file", "", "the patches, JSON Lines")
	concurrency := flag.Int("concurrency", 8, "how many patches may be under way")
	flag.Parse()
	found, err := run(*kubeconfig, *file, *concurrency)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		os.Exit(1)
	}
}

func run(kubeconfig, file string, concurrency int) (result, error) {
	patches, err := read(file)
	if err != nil {
		return result{}, err
	}
	client, err := connect(kubeconfig)
	if err != nil {
		return result{}, err
	}
	var next, failed atomic.Int64
	var first atomic.Value
	var group sync.WaitGroup
	began := time.Now()
	for range concurrency {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := next.Add(1); n <= int64(len(patches)); n = next.Add(1) {
				one := patches[n-1]
				_, err := client.Patch(types.PatchType(one.ContentType)).RequestURI(one.Path).
					SetHeader("Accept", one.Accept).Body([]byte(one.Body)).DoRaw(context.Background())
				if err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, err.Error())
				}
			}
		}()
	}
	group.Wait()
	found := result{
		Patches: len(patches), Failed: failed.Load(), Seconds: time.Since(began).Seconds(),
	}
	if text, ok := first.Load().(string); ok {
		found.FirstErr = text
	}
	return found, nil
}

func connect(kubeconfig string) (*rest.RESTClient, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme.Scheme)
	return rest.RESTClientFor(config)
}

func read(file string) ([]patch, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	lines := bufio.NewScanner(opened)
	lines.Buffer(nil, 16<<20)
	var patches []patch
	for lines.Scan() {
		var one patch
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, err
		}
		patches = append(patches, one)
	}
	return patches, lines.Err()
}
