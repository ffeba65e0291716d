package session

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const trialFile = `name: my-trial
proxmox: {endpoint: "https://pve1:8006", token: root@pam!cluster, secret: "env:NONE", insecure: true, host: pve1}
network: {prefix: 192.168.1.0/24, gateway: 192.168.1.1}
defaults: {storage: vmdata}
pools:
  server: {role: server, count: 1, addresses: [192.168.1.61], memory: 4GiB}
  worker: {count: 1, addresses: [192.168.1.71], memory: 4GiB}
`

// try gives the command.
func (w *site) try(yaml string, o Options, f HostTrialFlags) error {
	w.t.Helper()
	w.talk, w.data = bytes.Buffer{}, bytes.Buffer{}
	file, err := cluster.Parse("my.yaml", []byte(yaml))
	require.NoError(w.t, err)
	id, token := w.sim.Token()
	redact := secret.NewRedactor(secret.New(token))
	s := &Session{Console: &console.Console{Talk: &w.talk, Data: &w.data, JSON: o.JSON, Redact: redact}, opt: o, Spec: file}
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(w.t, err)
	return hostTrial(s, w.t.Context(), f, func(ctx context.Context, want *spec.Spec, wrap wrapper) (*cluster.Cluster, func(), error) {
		pve, err := proxmox.Dial(ctx, proxmox.Config{
			Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: w.sim.Client().Transport}, Wrap: wrap,
		})
		if err != nil {
			return nil, nil, err
		}
		c, err := cluster.New(want, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{signer}, Dial: w.sim.Network().Dial, Dir: w.dir})
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	})
}

// A trial asks before it does anything, tells where it stopped and how to go on, and
// ends with a table and a file.
func TestHostTrial(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		stdin := os.Stdin
		defer func() { os.Stdin = stdin }()
		var err error
		os.Stdin, err = os.Open(os.DevNull)
		require.NoError(t, err)
		defer func() { _ = os.Stdin.Close() }()

		// Nobody has agreed to anything yet.
		err = w.try(trialFile, Options{}, HostTrialFlags{})
		assert.Equal(t, refused, code(err))
		assert.ErrorContains(t, err, "add -yes")
		assert.Contains(t, w.talk.String(), "at its end destroys everything of this cluster:\n  check ")
		assert.Equal(t, invalid, code(w.try(strings.Replace(trialFile, "my-trial", "mine", 1), Options{}, HostTrialFlags{ChangeFlags: ChangeFlags{Yes: true}})))
		assert.Equal(t, invalid, code(w.try(trialFile, Options{}, HostTrialFlags{ChangeFlags: ChangeFlags{Yes: true}, From: "nowhere"})))
		assert.Equal(t, invalid, code(w.try(trialFile, Options{}, HostTrialFlags{ChangeFlags: ChangeFlags{Yes: true}, Out: "record.txt"})))
		assert.Empty(t, w.sim.Requests(), "nobody was asked anything")

		other := w.theirs("my-trial")
		err = w.try(trialFile, Options{}, HostTrialFlags{ChangeFlags: ChangeFlags{Yes: true, NoWait: true}})
		assert.Equal(t, refused, code(err), "another run is at work")
		assert.ErrorContains(t, err, "teacher@desk since ")
		require.NoError(t, other.Release(t.Context()))

		_, token := w.sim.Token()
		w.sim.Fail(pvesim.Rule{Method: http.MethodPost, Path: ".*/clone", Times: -1, Status: 500, Message: "no more of " + token})
		out := filepath.Join(t.TempDir(), "record")
		err = w.try(trialFile, Options{}, HostTrialFlags{ChangeFlags: ChangeFlags{Yes: true}, Out: out + ".md"})
		assert.Equal(t, 1, code(err))
		assert.ErrorContains(t, err, "the trial stopped at up: ")
		assert.ErrorContains(t, err, "homelab host:trial -spec=my.yaml -from=up\n")
		assert.ErrorContains(t, err, "homelab cluster:down -spec=my.yaml")
		page, err := os.ReadFile(out + ".md")
		require.NoError(t, err)
		assert.Regexp(t, `(?m)^\| up \| .* GET .* \| FAILED: .*no more of`, string(page))
		assert.NotContains(t, string(page), token)
		assert.Regexp(t, `(?m)^up .*FAILED: `, w.data.String())
	})
	inSite(t, func(t *testing.T, w *site) {
		out := filepath.Join(t.TempDir(), "record.json")
		require.NoError(t, w.try(trialFile, Options{}, HostTrialFlags{ChangeFlags: ChangeFlags{Yes: true}, Out: out}))
		assert.True(t, slices.ContainsFunc(w.sim.Requests(), func(r pvesim.Request) bool { return r.Params.Get("name") == "homelab-my-trial-lease" }),
			"nobody else changes the cluster meanwhile")
		assert.Contains(t, w.talk.String(), "The trial is complete, and everything that it created is gone.\n")
		assert.Equal(t, 10, strings.Count(w.data.String(), "\n"), "a header and nine steps: %s", &w.data)
		var record struct {
			Proxmox string
			Steps   []struct{ Requests map[string]int }
		}
		data, err := os.ReadFile(out)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &record))
		assert.NotEmpty(t, record.Proxmox)
		require.Len(t, record.Steps, 9)
		for _, s := range record.Steps {
			assert.Positive(t, s.Requests["GET"])
		}
		require.NoError(t, w.try(trialFile, Options{JSON: true}, HostTrialFlags{ChangeFlags: ChangeFlags{Yes: true}}), "and once more")
		told := objects(t, w.data.Bytes())
		require.Greater(t, len(told), 9, "events, and at the end an object a step")
		for i, o := range told {
			assert.Equal(t, i >= len(told)-9, o["requests"] != nil)
		}
	})
}
