package record_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/record"
)

// answersOfRealDaemons are requests and answers, a line of JSON each.
const answersOfRealDaemons = "../conform/recorded.jsonl.gz"

// real answers as real daemons did, where they were asked, and as a simulator else.
type real struct {
	bodies map[string][]byte // by path, the longest answer: the others are from before and after
	asked  map[string]bool
	sim    http.RoundTripper
}

func (r *real) RoundTrip(req *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(req.URL.RequestURI(), "/api2/json")
	path = strings.TrimSuffix(path, "?pci-class-blacklist=")
	body, there := r.bodies[path]
	if !there {
		return r.sim.RoundTrip(req)
	}
	r.asked[path] = true
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: req}, nil
}

func realAnswers(t *testing.T) map[string][]byte {
	t.Helper()
	f, err := os.Open(answersOfRealDaemons)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	unpacked, err := gzip.NewReader(f)
	require.NoError(t, err)
	out := map[string][]byte{}
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var e struct {
			Method, Path string
			Status       int
			Body         json.RawMessage
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		var text string
		if json.Unmarshal(e.Body, &text) == nil {
			e.Body = json.RawMessage(text)
		}
		if e.Method == http.MethodGet && e.Status == http.StatusOK && len(e.Body) > len(out[e.Path]) {
			out[e.Path] = e.Body
		}
	}
	require.NoError(t, lines.Err())
	// The list of machines was asked for when there were none: those whose
	// configurations are known take their places in it.
	var machines []string
	for path := range out {
		if id, ok := strings.CutSuffix(strings.TrimPrefix(path, "/nodes/pve1/qemu/"), "/config"); ok && strings.HasPrefix(path, "/nodes/pve1/qemu/") {
			machines = append(machines, `{"type":"qemu","id":"qemu/`+id+`","vmid":`+id+`,"node":"pve1","status":"stopped","template":0}`)
		}
	}
	out["/cluster/resources?type=vm"] = []byte(`{"data":[` + strings.Join(machines, ",") + `]}`)
	out["/cluster/mapping/pci"] = out["/cluster/mapping/pci?check-node=pve1"] // as for the machines
	return out
}

// TestRealAnswersAreUnderstood records from what real daemons said: numbers that are
// texts, keys that are left out, machines in the middle of something.
func TestRealAnswersAreUnderstood(t *testing.T) {
	host := pvesim.New(watched(pvesim.OneGPU()), pvesim.Options{Speed: 1000})
	defer host.Close()
	r := &real{bodies: realAnswers(t), asked: map[string]bool{}, sim: host.Client().Transport}
	m, missing, err := record.Read(t.Context(), record.Options{Endpoint: "https://pve1:8006", TokenID: reader, TokenSecret: readerSecret,
		Client: &http.Client{Transport: r}})
	require.NoError(t, err)
	for _, path := range []string{"/version", "/nodes/pve1/hardware/pci", "/nodes/pve1/storage", "/nodes/pve1/storage/local/content", "/cluster/mapping/pci", "/cluster/resources?type=vm"} {
		assert.True(t, r.asked[path], "%s was not asked of the real one", path)
	}
	assert.Equal(t, "9.2.11", m.Version)
	assert.NotEmpty(t, m.Hosts[0].PCI)
	assert.NotEmpty(t, m.Hosts[0].PCI[0].Class)
	assert.NotEmpty(t, m.Mappings)
	assert.Len(t, m.VMs, 4)
	assert.Equal(t, "mapping=gpu0", m.VMs[0].Config["hostpci0"])
	assert.Equal(t, "256", m.VMs[0].Config["memory"])
	for _, what := range missing {
		assert.NotContains(t, what, "not understood")
		assert.NotContains(t, what, "not sound")
	}
	text, err := m.YAML()
	require.NoError(t, err)
	_, err = pvesim.ParseModel("real.yaml", text)
	require.NoError(t, err, "%s", text)
	pvesim.New(m, pvesim.Options{}).Close()
}
