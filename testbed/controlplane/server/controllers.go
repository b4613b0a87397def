package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// defaultControllers are those that a workload of Deployments, Jobs and custom resources needs without nodes. Pod
// garbage collection is not among them: it deletes pods that are bound to nodes which do not exist.
const defaultControllers = "deployment-controller,replicaset-controller,job-controller,ttl-after-finished-controller," +
	"garbage-collector-controller,namespace-controller,serviceaccount-controller,serviceaccount-token-controller," +
	"root-ca-certificate-publisher-controller,endpoints-controller,endpointslice-controller," +
	"clusterrole-aggregation-controller,validatingadmissionpolicy-status-controller"

// controllersCommand is the first argument that turns this program into kube-controller-manager.
const controllersCommand = "kube-controller-manager"

// runControllers is kube-controller-manager with its own command line.
func runControllers(args []string) error {
	command := app.NewControllerManagerCommand()
	command.SetArgs(args)
	return command.Execute()
}

// startControllers starts kube-controller-manager and waits until it has made the first ServiceAccount. It runs as a
// process of its own, because feature gates are global to a process; it ends with this one.
func startControllers(ctx context.Context, s settings, files pkiFiles, kubeconfig string, server *apiServer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{
		controllersCommand,
		"--kubeconfig=" + kubeconfig,
		"--controllers=" + s.controllers,
		"--leader-elect=false",
		"--secure-port=0",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + files.serviceAccountKey,
		"--root-ca-file=" + files.ca,
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
	if s.featureGates != "" {
		args = append(args, "--feature-gates="+s.featureGates)
	}
	command := exec.CommandContext(ctx, self, args...)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	go func() {
		if err := command.Wait(); ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "controlplane: kube-controller-manager stopped by itself:", err)
			os.Exit(1)
		}
	}()
	return server.poll(ctx, func(ctx context.Context) bool {
		_, err := server.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}
