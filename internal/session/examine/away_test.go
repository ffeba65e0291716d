package examine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/secret"
)

// Nobody listens at port 1, neither as Proxmox nor as the way to the machines.
const nobodyThere = `
name: away
proxmox: {endpoint: "https://127.0.0.1:1", token: "homelab@pve!away", secret: "env:AWAY_SECRET", hosts: {pve1: {}, pve2: {}}}
ssh: {proxy: "socks5://127.0.0.1:1"}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.10}
pools:
  cp: {role: server, count: 1, host: auto, addresses: [10.0.0.11]}
  wk: {count: 1, host: pve2, addresses: [10.0.0.21]}
`

func inAwayFolder(t *testing.T) session.Options {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("AWAY_SECRET", "00000000-0000-4000-8000-00000000abcd")
	require.NoError(t, os.WriteFile("cluster.yaml", []byte(nobodyThere), 0o600))
	talk := t.Output()
	return session.Options{Without: true, Console: &console.Console{Talk: talk, Data: talk, Redact: &secret.Redactor{}}}
}

// A Proxmox that cannot be reached is a finding beside those of machines, K3s and pods.
func TestDoctorWithoutProxmox(t *testing.T) {
	o := inAwayFolder(t)
	var data bytes.Buffer
	o.Console.Data, o.Console.Talk = &data, &data
	require.NoError(t, history.SaveRun(".homelab/away/"+history.RunFile, history.Run{Ended: time.Now(), Failed: []history.Step{{Name: "vm/cp1", Error: "no answer"}}}))
	err := session.Do(t.Context(), o, Doctor)
	var coded *session.Error
	require.True(t, errors.As(err, &coded), "%v", err)
	assert.Equal(t, sick, coded.Code)
	for _, want := range []string{"proxmox-unreachable", "its API does not answer, so nodes and pods", "no-login", "run-failed", "vm/cp1: no answer"} {
		assert.Contains(t, data.String(), want)
	}
	o.Without = false
	require.ErrorContains(t, session.Do(t.Context(), o, Doctor), "127.0.0.1:1")
}

// The archive of a helper is made then too.
func TestSupportWithoutProxmox(t *testing.T) {
	o := inAwayFolder(t)
	s, err := session.Open(t.Context(), o)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, Support(s, t.Context(), SupportFlags{Out: "away.tar.gz"}))
	files := unpack(t, "away.tar.gz")
	assert.Contains(t, files["doctor.txt"], "proxmox-unreachable")
	assert.Contains(t, files["plan.txt"], "the plan could not be made")
	assert.Contains(t, files, "cluster.yaml")
}

// unpack returns the files of an archive by their names.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file) //nolint:gosec // made by this test
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	out := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		out[path.Base(h.Name)] = string(text)
	}
}
