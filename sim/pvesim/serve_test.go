package pvesim

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOverTLS(t *testing.T) {
	s := New(EightA100(), Options{Speed: 1000})
	defer s.Close()
	cert, fingerprint, err := s.TLS()
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})) }()
	defer func() {
		cancel()
		assert.NoError(t, <-served)
	}()
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	require.NoError(t, err)
	pool.AddCert(leaf)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}}
	get := func(path string) (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+l.Addr().String()+"/api2/json"+path, nil)
		require.NoError(t, err)
		id, secret := s.Token()
		r.Header.Set("Authorization", "PVEAPIToken="+id+"="+secret)
		res, err := client.Do(r)
		if err != nil {
			return nil, "", err
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		return res, string(b), err
	}
	res, body, err := get("/version")
	require.NoError(t, err)
	assert.Equal(t, "200 OK", res.Status)
	assert.Contains(t, body, "9.2.11")
	sum := fmt.Sprintf("%X", sha256.Sum256(res.TLS.PeerCertificates[0].Raw))
	assert.Equal(t, sum, strings.ReplaceAll(fingerprint, ":", ""))

	res, body, err = get("/nodes/pve1/qemu/999/config")
	require.NoError(t, err)
	assert.Equal(t, "500 Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist", res.Status, "the reason is the error")
	assert.Contains(t, body, `"message":"Configuration file`)
	s.Fail(Rule{Path: "/version", Drop: true})
	_, _, err = get("/version")
	require.Error(t, err)
	s.Fail(Rule{Path: "/version", Status: 596})
	res, _, err = get("/version")
	require.NoError(t, err)
	assert.Equal(t, "596 Connection timed out", res.Status)
}

// TestAThousandMachines is the reading half of a plan: one look at everything,
// then each configuration.
func TestAThousandMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := New(EightA100(), Options{})
		defer s.Close()
		c := newCaller(t, s)
		c.template()
		const n = 1000
		for i := range n {
			s.AddVM(VM{ID: 2000 + i, Node: "pve1", Name: fmt.Sprintf("wk-%d", i), Config: map[string]string{"memory": "4096", "cores": "4",
				"scsi0": fmt.Sprintf("vmdata:vm-%d-disk-0,size=32G", 2000+i), "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "tags": "lab",
				"boot": "order=scsi0", "machine": "q35", "serial0": "socket", "agent": "1", "description": "a worker"}})
		}
		client := s.Client()
		look := func() {
			for i := range n {
				r, err := http.NewRequest("GET", "https://pve/api2/json/nodes/pve1/qemu/"+strconv.Itoa(2000+i)+"/config", nil)
				require.NoError(t, err)
				r.Header.Set("Authorization", c.auth)
				res, err := client.Do(r)
				require.NoError(t, err)
				require.Equal(t, 200, res.StatusCode)
			}
		}
		assert.Greater(t, len(c.do("GET", "/cluster/resources", "type", "vm").body), n*100)
		look()
		look()
		runtime.GC()
		runtime.ReadMemStats(&after)
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(40<<20))
	})
}

func BenchmarkGetConfig(b *testing.B) {
	s := New(EightA100(), Options{})
	defer s.Close()
	id, secret := s.Token()
	client := s.Client()
	for b.Loop() {
		r, _ := http.NewRequest("GET", "https://pve/api2/json/nodes/pve1/qemu/104/config", nil)
		r.Header.Set("Authorization", "PVEAPIToken="+id+"="+secret)
		if _, err := client.Do(r); err != nil {
			b.Fatal(err)
		}
		s.ForgetRequests()
	}
}

func TestModelsAsYAML(t *testing.T) {
	for _, m := range []Model{EightA100(), OneGPU(), TwoHosts()} {
		text, err := m.YAML()
		require.NoError(t, err)
		again, err := ParseModel("model.yaml", text)
		require.NoError(t, err, string(text))
		assert.Equal(t, m, again)
	}
	_, err := ParseModel("model.yaml", []byte("hosts: []\nhots: 3\n"))
	assert.ErrorContains(t, err, "hots")
	m, err := ParseModel("model.yaml", []byte("hosts: [{name: a, memory: 64GiB, storages: [{name: x, type: dir, size: 1.5TiB}]}]"))
	require.NoError(t, err)
	assert.Equal(t, []Size{64 * GiB, 1536 * GiB}, []Size{m.Hosts[0].Memory, m.Hosts[0].Storages[0].Size})
}

func TestTwoHostsAreOneCluster(t *testing.T) {
	in(t, TwoHosts(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve2/qemu", "vmid", "100", "scsi0", "vmdata:8")))
		assert.Equal(t, "101", c.do("GET", "/cluster/nextid").text())
		assert.Equal(t, 500, c.do("GET", "/nodes/pve1/qemu/100/config").status, "it is on the other one")
		assert.Equal(t, []Volume{{ID: "vmdata:vm-100-disk-0", Node: "pve2", Content: "images", Size: 8 << 30, Owner: 100}}, s.Volumes())
		r := c.do("POST", "/nodes/pve2/qemu/100/clone", "newid", "101", "full", "1", "target", "pve1")
		assert.Equal(t, "can't clone VM to node 'pve1' (VM uses local storage)", r.reason)
		assert.Equal(t, 2, strings.Count(c.do("GET", "/cluster/resources", "type", "node").body, `"type":"node"`))
		assert.Equal(t, 4, strings.Count(c.do("GET", "/cluster/resources", "type", "storage").body, `"type":"storage"`))
	})
}
