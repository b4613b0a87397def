// Command controlplane is a Kubernetes control plane in one process, for tests: etcd, kube-apiserver and, on
// request, kube-controller-manager, all from their own Go modules, serving on 127.0.0.1 only.
//
// Everything it keeps (data, certificates, kubeconfig) is under --dir, so a process that was killed goes on where
// it stopped when it is started again with the same directory and port. When the API server is ready, one JSON line
// on standard output says where it is; logs go to standard error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
)

// settings are the command line's.
type settings struct {
	dir               string
	port              int
	etcd              string
	controllerManager bool
	controllers       string
	featureGates      string
	auditLog          string
	stopOnStdinEOF    bool
	apiserverArgs     repeated
}

// repeated collects a flag that may be given many times.
type repeated []string

func (r *repeated) String() string { return strings.Join(*r, " ") }

func (r *repeated) Set(value string) error {
	*r = append(*r, value)
	return nil
}

// ready is the line that says that the control plane can be used.
type ready struct {
	Kubeconfig string `json:"kubeconfig"`
	URL        string `json:"url"`
	CA         string `json:"ca"`
	Etcd       string `json:"etcd"`
	Token      string `json:"token"`
	PID        int    `json:"pid"`
	Version    string `json:"version"`
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", "", "directory for data, certificates and kubeconfig (required)")
	flags.IntVar(&s.port, "port", 0, "port of the API server; 0 takes a free one")
	flags.StringVar(&s.etcd, "etcd", "", "address of an etcd to use instead of one of its own: a second API server beside the first")
	flags.BoolVar(&s.controllerManager, "controller-manager", false, "run kube-controller-manager too")
	flags.StringVar(&s.controllers, "controllers", defaultControllers, "kube-controller-manager's --controllers")
	flags.StringVar(&s.featureGates, "feature-gates", "", "kube-apiserver's --feature-gates")
	flags.StringVar(&s.auditLog, "audit-log", "", "file for the audit log: every request with its metadata")
	flags.BoolVar(&s.stopOnStdinEOF, "stop-on-stdin-eof", false, "stop when standard input is closed, so that no process outlives its test run")
	flags.Var(&s.apiserverArgs, "apiserver-arg", "one more kube-apiserver argument, such as --apiserver-arg=--v=4; may be repeated")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.dir == "" {
		return s, errors.New("--dir is required")
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected arguments: %s", strings.Join(flags.Args(), " "))
	}
	return s, nil
}

func run(ctx context.Context, s settings) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if s.stopOnStdinEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop(errors.New("standard input was closed"))
		}()
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	files, err := ensurePKI(s.dir)
	if err != nil {
		return err
	}
	if s.etcd == "" {
		store, err := startEtcd(s.dir)
		if err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		defer store.close()
		s.etcd = store.url
	}
	server, err := startAPIServer(ctx, s, files)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	kubeconfig, err := writeKubeconfig(s.dir, server.url, files)
	if err != nil {
		return err
	}
	if err := server.waitUntilReady(ctx); err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	if s.controllerManager {
		if err := startControllers(ctx, s, files, kubeconfig, server); err != nil {
			return fmt.Errorf("kube-controller-manager: %w", err)
		}
	}
	line := ready{kubeconfig, server.url, files.ca, s.etcd, files.token, os.Getpid(), serverVersion()}
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		return err
	}
	return server.wait(ctx)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == controllersCommand {
		if err := runControllers(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "controlplane:", err)
			os.Exit(1)
		}
		return
	}
	s, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(2)
	}
	runtime.LockOSThread()  // the kernel ends kube-controller-manager with the thread that started it
	debug.SetGCPercent(400) // start-up allocates much and lives briefly: fewer collections, faster start
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}
