package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	serviceCIDR = "10.96.0.0/16"
	issuer      = "https://kubernetes.default.svc.cluster.local"
)

// everyRequest is the audit policy that is used when none is given.
const everyRequest = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// apiServer is a running kube-apiserver.
type apiServer struct {
	url    string
	client kubernetes.Interface
	done   chan error
}

func serverVersion() string { return version.Get().GitVersion }

// apiServerArgs are the flags that a production kube-apiserver would get, less what needs nodes.
func apiServerArgs(s settings, files pkiFiles) ([]string, error) {
	args := []string{
		"--etcd-servers=" + s.etcd,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // Endpoints refuse loopback addresses
		"--tls-cert-file=" + files.serverCert,
		"--tls-private-key-file=" + files.serverKey,
		"--token-auth-file=" + files.tokens,
		"--authorization-mode=RBAC",
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + files.serviceAccountKey,
		"--service-account-signing-key-file=" + files.serviceAccountKey,
		"--service-cluster-ip-range=" + serviceCIDR,
		"--enable-aggregator-routing=true", // webhooks are called at their Service's endpoints: there is no kube-proxy
		"--allow-privileged=true",
		"--delete-collection-workers=8", // namespaces are emptied after each test
		"--profiling=false",
	}
	if !s.controllerManager {
		// Nobody creates the ServiceAccount "default" of a namespace, so pods that name none must pass without it.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if s.featureGates != "" {
		args = append(args, "--feature-gates="+s.featureGates)
	}
	if s.auditLog != "" {
		policy := filepath.Join(s.dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(everyRequest), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--audit-log-path="+s.auditLog, "--audit-policy-file="+policy, "--audit-log-mode=blocking")
	}
	return append(args, s.apiserverArgs...), nil
}

// startAPIServer starts kube-apiserver; it serves until ctx ends.
func startAPIServer(ctx context.Context, s settings, files pkiFiles) (*apiServer, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	args, err := apiServerArgs(s, files)
	if err != nil {
		return nil, err
	}
	opts := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(append(args, fmt.Sprintf("--secure-port=%d", port))); err != nil {
		return nil, err
	}
	opts.SecureServing.Listener = listener
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completedOptions, err := opts.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completedOptions.Validate(); len(errs) != 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	config, err := app.NewConfig(completedOptions)
	if err != nil {
		return nil, err
	}
	completed, err := config.Complete()
	if err != nil {
		return nil, err
	}
	chain, err := app.CreateServerChain(completed)
	if err != nil {
		return nil, err
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(chain.GenericAPIServer.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	server := &apiServer{url: fmt.Sprintf("https://127.0.0.1:%d", port), client: client, done: make(chan error, 1)}
	go func() { server.done <- prepared.Run(ctx) }()
	return server, nil
}

// waitUntilReady waits until /readyz is ok and the namespace "default" is there.
func (a *apiServer) waitUntilReady(ctx context.Context) error {
	return a.poll(ctx, func(ctx context.Context) bool {
		if _, err := a.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return false
		}
		_, err := a.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err == nil
	})
}

// poll tries until the condition holds, for two minutes at most; a server that stops ends it at once.
func (a *apiServer) poll(ctx context.Context, condition func(context.Context) bool) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-a.done:
			return false, errors.Join(errors.New("stopped before it was ready"), err)
		default:
			return condition(ctx), nil
		}
	})
}

// wait returns when the server has shut down: nil if it was told to.
func (a *apiServer) wait(ctx context.Context) error {
	err := <-a.done
	if ctx.Err() == nil {
		return errors.Join(errors.New("kube-apiserver stopped by itself"), err)
	}
	return err
}
