package main

import (
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// etcd is the embedded store and the address of its client listener.
type etcd struct {
	server *embed.Etcd
	url    string
}

// startEtcd starts a one-member cluster on free ports of 127.0.0.1. It does not wait for the disk (fsync): a killed
// process loses nothing, a killed machine may, and then the directory of a test is gone anyway.
func startEtcd(dir string) (*etcd, error) {
	wal.SegmentSizeBytes = 8 << 20 // allocated in advance, twice, for each of many short-lived directories
	anyPort := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.ListenClientUrls = []url.URL{anyPort}
	config.ListenPeerUrls = []url.URL{anyPort}
	config.AdvertiseClientUrls = []url.URL{anyPort}
	config.AdvertisePeerUrls = []url.URL{anyPort}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.EnableGRPCGateway = false // it would call the advertised address, which has no port
	config.UnsafeNoFsync = true
	config.TickMs = 10 // there is no peer to wait for: elect at once
	config.ElectionMs = 100
	config.QuotaBackendBytes = 4 << 30
	config.LogLevel = "error"
	config.LogOutputs = []string{"stderr"}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
		return &etcd{server, "http://" + server.Clients[0].Addr().String()}, nil
	case err := <-server.Err():
		return nil, err
	case <-time.After(time.Minute):
		server.Close()
		return nil, errors.New("not ready after a minute")
	}
}

func (e *etcd) close() { e.server.Close() }
