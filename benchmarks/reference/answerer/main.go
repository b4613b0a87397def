// Answerer is a TLS server that answers every request at once, as an API server answers the patch of a pod: what a
// client can do is what is left.
//
// It prints a kubeconfig for itself as one line of JSON, and serves HTTP/2 and HTTP/1.1 on the loopback until it is
// killed.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// answer has the size of a pod's metadata, managed fields included.
var answer = func() []byte {
	fields := map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{
		"f:app.kubernetes.io/managed-by": map[string]any{}, "f:app.kubernetes.io/part-of": map[string]any{},
		"f:grove.io/podclique": map[string]any{}, "f:grove.io/podgang": map[string]any{},
		"f:grove.io/pod-template-hash": map[string]any{},
	}}}
	entry := func(manager string) map[string]any {
		return map[string]any{"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
			"time": "2026-01-02T03:04:05Z", "fieldsV1": fields}
	}
	data, err := json.Marshal(map[string]any{
		"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
		"metadata": map[string]any{
			"name": "web-0-worker-abcde", "generateName": "web-0-worker-", "namespace": "default", "generation": 1,
			"uid": "00000000-0000-4000-8000-000000000001", "resourceVersion": "123456",
			"creationTimestamp": "2026-01-02T03:04:05Z",
			"labels": map[string]string{"app.kubernetes.io/managed-by": "grove-operator", "grove.io/podgang": "web-0",
				"app.kubernetes.io/part-of": "web", "grove.io/podclique": "web-0-worker",
				"grove.io/pod-template-hash": "5d8f7c9b6d"},
			"ownerReferences": []any{map[string]any{"apiVersion": "grove.io/v1alpha1", "kind": "PodClique",
				"name": "web-0-worker", "uid": "00000000-0000-4000-8000-000000000002", "controller": true}},
			"managedFields": []any{entry("grove-operator"), entry("grove-migrator")},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return data
}()

func serve(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	header := w.Header()
	header.Set("Audit-Id", "00000000-0000-4000-8000-000000000003")
	header.Set("Cache-Control", "no-cache, private")
	header.Set("Content-Type", "application/json")
	header.Set("X-Kubernetes-Pf-Flowschema-Uid", "00000000-0000-4000-8000-000000000004")
	header.Set("X-Kubernetes-Pf-Prioritylevel-Uid", "00000000-0000-4000-8000-000000000005")
	header.Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer)
}

func certificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, encoded, err
}

func run() error {
	own, authority, err := certificate()
	if err != nil {
		return err
	}
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	named := func(kind string, value any) []any { return []any{map[string]any{"name": "a", kind: value}} }
	err = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"contexts": named("context", map[string]string{"cluster": "a", "user": "a"}),
		"users":    named("user", map[string]string{"token": "a"}),
		"clusters": named("cluster", map[string]any{
			"server": "https://" + listening.Addr().String(), "certificate-authority-data": authority,
		}),
	})
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:   http.HandlerFunc(serve),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"h2", "http/1.1"}},
	}
	return server.ServeTLS(listening, "", "")
}

func main() {
	log.Fatal(run())
}
