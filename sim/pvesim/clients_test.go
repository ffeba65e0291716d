package pvesim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOtherPeoplesClients asks again what OpenTofu, Ansible and Packer asked: see
// testdata/clients/README.md. What one of them gets answered must not change
// unnoticed, and each leaves the host as it says.
func TestOtherPeoplesClients(t *testing.T) {
	model, err := LoadModel("models/clients.yaml")
	require.NoError(t, err)
	left := map[string][]int{
		"ansible": {9000}, "opentofu-bpg-clone": {9000}, "opentofu-bpg-everything": {9000}, "packer-clone": {401, 9000}, "packer-iso": {402, 9000},
	}
	files, err := filepath.Glob("testdata/clients/*.jsonl")
	require.NoError(t, err)
	require.Len(t, files, len(left))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const token, secret = "root@pam!pvesim", "11111111-2222-4333-8444-555555555555"
			m := model
			m.Tokens = []Token{{ID: token, Secret: secret}}
			s := New(m, Options{Speed: 1000})
			defer s.Close()
			r := &retelling{t: t, sim: s, authorization: "PVEAPIToken=" + token + "=" + secret}
			r.tell(file)
			var ids []int
			for _, v := range s.VMs() {
				ids = append(ids, v.ID)
			}
			assert.Equal(t, left[name], ids, "what is left")
		})
	}
}

// retelling replays requests. Tasks have other names this time: those of the
// record are taken for the last that was started of the same kind.
type retelling struct {
	t             *testing.T
	sim           *Sim
	authorization string
}

// told is one request of a record.
type told struct {
	Method string     `json:"method"`
	Path   string     `json:"path"`
	Params url.Values `json:"params"`
	Status int        `json:"status"`
}

func (r *retelling) tell(file string) {
	f, err := os.Open(file)
	require.NoError(r.t, err)
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var req told
		require.NoError(r.t, json.Unmarshal(lines.Bytes(), &req))
		status, body := r.ask(req)
		require.Equal(r.t, req.Status, status, "%s:%d: %s %s %v\n%s", file, n, req.Method, req.Path, req.Params, body)
		var answer struct{ Data any }
		if json.Unmarshal(body, &answer) != nil {
			continue
		}
		if upid, ok := answer.Data.(string); ok && strings.HasPrefix(upid, "UPID:") {
			r.wait(upid, fmt.Sprintf("%s:%d: %s %s", file, n, req.Method, req.Path))
		}
	}
	require.NoError(r.t, lines.Err())
}

// wait sees a task end well: and so does everybody who asked for it.
func (r *retelling) wait(upid, what string) {
	require.Eventually(r.t, func() bool {
		r.sim.state.Mu.Lock()
		defer r.sim.state.Mu.Unlock()
		task := r.sim.state.Tasks[upid]
		if !task.Running() {
			assert.True(r.t, task.Exit == "OK" || strings.HasPrefix(task.Exit, "WARNINGS:"), "%s: %s", what, task.Exit)
		}
		return !task.Running()
	}, 20*time.Second, time.Millisecond, "%s: %s goes on", what, upid)
}

var recordedTask = regexp.MustCompile(`UPID:[^/]*`)

// now is the path with this time's task for that of the record.
func (r *retelling) now(path string) string {
	return recordedTask.ReplaceAllStringFunc(path, func(upid string) string {
		parts := strings.Split(upid, ":")
		r.sim.state.Mu.Lock()
		defer r.sim.state.Mu.Unlock()
		for _, t := range slices.Backward(r.sim.state.TaskOrder) {
			if t.Kind == parts[5] && (t.ID == parts[6] || t.Kind == "imgcopy") {
				return t.UPID
			}
		}
		return upid
	})
}

func (r *retelling) ask(req told) (status int, body []byte) {
	target := url.URL{Scheme: "https", Host: "pve1:8006", Path: prefix + r.now(req.Path)}
	var content io.Reader
	kind := "application/x-www-form-urlencoded"
	switch {
	case strings.HasSuffix(req.Path, "/upload"):
		content, kind = r.upload(req.Params)
	case req.Method == http.MethodGet, req.Method == http.MethodDelete:
		target.RawQuery = req.Params.Encode()
	default:
		content = strings.NewReader(req.Params.Encode())
	}
	out, err := http.NewRequestWithContext(r.t.Context(), req.Method, target.String(), content)
	require.NoError(r.t, err)
	out.Header.Set("Authorization", r.authorization)
	out.Header.Set("Content-Type", kind)
	in, err := r.sim.Client().Do(out)
	require.NoError(r.t, err)
	defer func() { _ = in.Body.Close() }()
	body, err = io.ReadAll(in.Body)
	require.NoError(r.t, err)
	return in.StatusCode, body
}

// upload makes the form of a file, whose contents no record has.
func (r *retelling) upload(params url.Values) (content io.Reader, kind string) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for k, v := range params {
		if k != "filename" {
			require.NoError(r.t, form.WriteField(k, v[0]))
		}
	}
	file, err := form.CreateFormFile("filename", params.Get("filename"))
	require.NoError(r.t, err)
	_, err = file.Write(make([]byte, 4096))
	require.NoError(r.t, err)
	require.NoError(r.t, form.Close())
	return &body, form.FormDataContentType()
}
