// Command node is what a cluster with a real node needs beside the control plane, for tests: kubelet, kube-scheduler
// and kubectl, from their own Go modules. The first argument names the one, the others are its own command line.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	kubectl "k8s.io/kubectl/pkg/cmd"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kubelet":        func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kubectl":        kubectl.NewDefaultKubectlCommand,
		"kube-scheduler": func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "node: the first argument must be kubelet, kube-scheduler or kubectl")
		os.Exit(2)
	}
	command := commands[os.Args[1]]()
	command.SetArgs(os.Args[2:])
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}
