package pvesim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// caller is a bare HTTP client of a Sim: tests of answers want no library between.
type caller struct {
	t    *testing.T
	s    *Sim
	auth string
}

func newCaller(t *testing.T, s *Sim) *caller {
	id, secret := s.Token()
	return &caller{t: t, s: s, auth: "PVEAPIToken=" + id + "=" + secret}
}

type reply struct {
	status int
	reason string
	body   string
	Data   json.RawMessage
	Errors map[string]string
	Total  int
}

func (c *caller) do(method, path string, kv ...string) reply {
	c.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(kv); i += 2 {
		form.Add(kv[i], kv[i+1])
	}
	target := "https://pve/api2/json" + path
	var body io.Reader
	if method == "GET" || method == "DELETE" {
		if len(form) > 0 {
			target += "?" + form.Encode()
		}
	} else {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(context.Background(), method, target, body)
	require.NoError(c.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return c.send(r)
}

func (c *caller) send(r *http.Request) reply {
	c.t.Helper()
	if c.auth != "" {
		r.Header.Set("Authorization", c.auth)
	}
	res, err := c.s.Client().Do(r)
	if err != nil {
		return reply{reason: err.Error()}
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	_, reason, _ := strings.Cut(res.Status, " ")
	out := reply{status: res.StatusCode, reason: reason, body: string(raw)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		require.NoError(c.t, json.Unmarshal(raw, &out), "%s", raw)
	}
	return out
}

func (c *caller) upload(storage, content, name string, data []byte, fields ...string) reply {
	c.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(c.t, w.WriteField("content", content))
	for i := 0; i+1 < len(fields); i += 2 {
		require.NoError(c.t, w.WriteField(fields[i], fields[i+1]))
	}
	part, err := w.CreateFormFile("filename", name)
	require.NoError(c.t, err)
	_, err = part.Write(data)
	require.NoError(c.t, err)
	require.NoError(c.t, w.Close())
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://pve/api2/json/nodes/pve1/storage/"+storage+"/upload", &b)
	require.NoError(c.t, err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return c.send(r)
}

func (r reply) text() string {
	var s string
	_ = json.Unmarshal(r.Data, &s)
	return s
}

func (r reply) object() map[string]any {
	m := map[string]any{}
	_ = json.Unmarshal(r.Data, &m)
	return m
}

// wait polls a task to its end and returns its exit status.
func (c *caller) wait(r reply) string {
	c.t.Helper()
	upid := r.text()
	require.True(c.t, strings.HasPrefix(upid, "UPID:"), "no task: %d %s %s", r.status, r.reason, r.body)
	node := strings.Split(upid, ":")[1]
	for {
		st := c.do("GET", "/nodes/"+node+"/tasks/"+url.PathEscape(upid)+"/status").object()
		if st["status"] == "stopped" {
			return st["exitstatus"].(string)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// in runs a test in a bubble of virtual time with a simulated host.
func in(t *testing.T, m Model, o Options, f func(t *testing.T, s *Sim, c *caller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(m, o)
		defer s.Close()
		f(t, s, newCaller(t, s))
	})
}

const nobleURL = "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"

// template makes template 900 the way the product does.
func (c *caller) template() {
	c.t.Helper()
	require.Equal(c.t, "OK", c.wait(c.do("POST", "/nodes/pve1/storage/local/download-url", "content", "import", "filename", "noble.qcow2", "url", nobleURL)))
	r := c.do("POST", "/nodes/pve1/qemu", "vmid", "900", "name", "tmpl", "memory", "2048", "cores", "2", "machine", "q35", "bios", "ovmf",
		"efidisk0", "vmdata:0,efitype=4m,pre-enrolled-keys=0", "scsihw", "virtio-scsi-single",
		"scsi0", "vmdata:0,import-from=local:import/noble.qcow2,discard=on,iothread=1", "net0", "virtio,bridge=vmbr0",
		"serial0", "socket", "agent", "enabled=1", "ostype", "l26", "tags", "lab")
	require.Equal(c.t, "OK", c.wait(r))
	require.Equal(c.t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/900/template")))
}
