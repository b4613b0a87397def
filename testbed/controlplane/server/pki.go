package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pkiFiles are the paths of what identifies this control plane, and the administrator's bearer token.
type pkiFiles struct {
	ca, serverCert, serverKey, serviceAccountKey, tokens, token string
}

// serviceIP is the first address of serviceCIDR, where Kubernetes puts the Service "kubernetes".
var serviceIP = net.IPv4(10, 96, 0, 1)

// ensurePKI creates certificates, keys and the administrator's token once per directory: after a restart clients
// and ServiceAccount tokens of before are still good.
func ensurePKI(dir string) (pkiFiles, error) {
	pki := filepath.Join(dir, "pki")
	files := pkiFiles{
		ca:                filepath.Join(pki, "ca.crt"),
		serverCert:        filepath.Join(pki, "server.crt"),
		serverKey:         filepath.Join(pki, "server.key"),
		serviceAccountKey: filepath.Join(pki, "service-account.key"),
		tokens:            filepath.Join(pki, "tokens.csv"),
	}
	tokenFile := filepath.Join(pki, "admin.token") // written last: its presence means that the rest is complete
	token, err := os.ReadFile(tokenFile)
	if err == nil {
		files.token = string(token)
		return files, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return files, err
	}
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return files, err
	}
	if err := createPKI(&files); err != nil {
		return files, fmt.Errorf("creating certificates: %w", err)
	}
	return files, os.WriteFile(tokenFile, []byte(files.token), 0o600)
}

func createPKI(files *pkiFiles) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := certificate("controlplane-ca")
	ca.IsCA = true
	ca.BasicConstraintsValid = true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := certificate("kube-apiserver")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), serviceIP}
	server.DNSNames = []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, serverKey.Public(), caKey)
	if err != nil {
		return err
	}
	saKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	files.token = hex.EncodeToString(secret)
	return errors.Join(
		writePEM(files.ca, "CERTIFICATE", caDER),
		writePEM(files.serverCert, "CERTIFICATE", serverDER),
		writeKey(files.serverKey, serverKey),
		writeKey(files.serviceAccountKey, saKey),
		os.WriteFile(files.tokens, []byte(files.token+",admin,admin,system:masters\n"), 0o600),
	)
}

func certificate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
	}
}

// writeKey writes the form from which kube-apiserver also reads the public half (SEC 1, not PKCS 8).
func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfig writes the administrator's kubeconfig (group system:masters) and returns its path.
func writeKubeconfig(dir, url string, files pkiFiles) (string, error) {
	caPEM, err := os.ReadFile(files.ca)
	if err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["controlplane"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: caPEM}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: files.token}
	config.Contexts["controlplane"] = &clientcmdapi.Context{Cluster: "controlplane", AuthInfo: "admin"}
	config.CurrentContext = "controlplane"
	path := filepath.Join(dir, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
