package site_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func start(t *testing.T, dir string) labctl.State {
	t.Helper()
	var last string
	ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { last = u.Message })
	began := time.Now()
	s, err := labctl.Start(ctx, labctl.Options{Dir: dir, Binary: labtest.Binary(t, labtest.Real()), Guests: labtest.Real()})
	require.NoError(t, err, last)
	t.Logf("started in %s; last: %s", time.Since(began).Round(time.Millisecond), last)
	t.Cleanup(func() { assert.NoError(t, labctl.Stop(context.WithoutCancel(t.Context()), dir)) })
	return s
}

// version asks the simulated host with the lab's own token.
func version(t *testing.T, s labctl.State) string {
	t.Helper()
	token, err := s.Token()
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			if labctl.Fingerprint(c.PeerCertificates[0].Raw) != s.Fingerprint {
				return errors.New("another certificate")
			}
			return nil
		},
	}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint+"/api2/json/version", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "PVEAPIToken="+s.TokenID+"="+token.Reveal())
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var body struct{ Data struct{ Version string } }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&body))
	return body.Data.Version
}

// gone waits a moment for the kernel: who has released the lab's lock is still leaving.
func gone(pids []labctl.Process) (err error) {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(20 * time.Millisecond) {
		if err = running(pids); err == nil {
			return nil
		}
	}
	return err
}

func running(pids []labctl.Process) error {
	for _, p := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", p.PID)); err == nil {
			return fmt.Errorf("%s (%d) still runs", p.Name, p.PID)
		}
	}
	return nil
}

// settle waits until all of the control plane runs.
func settle(t *testing.T, dir string) labctl.Status {
	t.Helper()
	const programs = 5 // the lab, etcd, API server, controller-manager, scheduler
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
		status, err := labctl.Stat(t.Context(), dir)
		require.NoError(t, err)
		if len(status.Processes) == programs {
			return status
		}
	}
	require.Fail(t, "the control plane is not complete")
	return labctl.Status{}
}

// TestALabOfAModelsFile has hosts that nobody has foreseen, and says in lab.json
// which file they are from.
func TestALabOfAModelsFile(t *testing.T) {
	dir := t.TempDir()
	m := pvesim.NewModel(pvesim.Host{Name: "atlas", CPUs: 8, Memory: 32 * pvesim.GiB, Bridges: []string{"vmbr0"}})
	m.Version = "9.1.4"
	text, err := m.YAML()
	require.NoError(t, err)
	file := filepath.Join(dir, "site.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	s, err := labctl.Start(t.Context(), labctl.Options{Dir: dir, Binary: labtest.Binary(t, labtest.Real()), Guests: labtest.Real(), Model: file})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, labctl.Stop(context.WithoutCancel(t.Context()), dir)) })
	assert.Equal(t, file, s.Model)
	assert.Equal(t, "9.1.4", version(t, s))
	assert.Contains(t, s.Hosts, "atlas")
}

func TestLifeOfALab(t *testing.T) {
	dir := t.TempDir()
	_, err := labctl.Find(t.Context(), dir)
	require.ErrorIs(t, err, labctl.ErrNotRunning)

	s := start(t, dir)
	assert.NotEmpty(t, version(t, s))
	assert.True(t, strings.HasPrefix(s.Endpoint, "https://127.0.0.1:"))
	assert.True(t, strings.HasPrefix(s.SOCKS, "socks5://127.0.0.1:"))

	again := start(t, dir)
	assert.Equal(t, s, again, "the lab that runs is the one to use")
	_, err = labctl.Start(t.Context(), labctl.Options{Dir: dir, Model: "one-gpu", Guests: labtest.Real()})
	require.ErrorContains(t, err, `runs with the hardware "eight-a100", and "one-gpu" is asked for`)

	token, err := s.Token()
	require.NoError(t, err)
	for _, secretFile := range []string{s.TokenFile, s.Jump.KeyFile} {
		info, err := os.Stat(secretFile)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), secretFile)
	}
	state, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	require.NoError(t, err)
	assert.NotContains(t, string(state), token.Reveal())

	status := settle(t, dir)
	for _, p := range status.Processes {
		t.Logf("%-24s %4d MiB", p.Name, p.Memory>>20)
	}
	assert.Less(t, status.Memory(), int64(2<<30), "idle memory")
	assert.Greater(t, status.Memory(), int64(100<<20), "memory was measured")
	assert.False(t, status.Outdated)

	require.NoError(t, labctl.Stop(t.Context(), dir))
	require.NoError(t, gone(status.Processes))
	_, err = labctl.Find(t.Context(), dir)
	require.ErrorIs(t, err, labctl.ErrNotRunning)
	assert.NoFileExists(t, filepath.Join(dir, "lab.json"))
	assert.NoDirExists(t, filepath.Join(dir, "plane"))
	require.NoError(t, labctl.Stop(t.Context(), dir), "stopping nothing is not an error")
}

func TestCrashLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	status := settle(t, dir)
	require.NoError(t, syscall.Kill(s.PID, syscall.SIGKILL))
	require.NoError(t, gone(status.Processes[1:]), "a component outlived the lab")
	assert.FileExists(t, filepath.Join(dir, "lab.json"))
	_, err := labctl.Find(t.Context(), dir)
	require.ErrorIs(t, err, labctl.ErrNotRunning)

	next := start(t, dir)
	assert.NotEqual(t, s.PID, next.PID)
	assert.NotEmpty(t, version(t, next))
}

func TestAWrongModelSaysWhich(t *testing.T) {
	_, err := labctl.Start(t.Context(), labctl.Options{Dir: t.TempDir(), Binary: labtest.Binary(t, labtest.Real()), Guests: labtest.Real(), Model: "nine-a100"})
	require.ErrorContains(t, err, `no model "nine-a100": there are one-gpu, two-hosts, eight-a100`)
}

func TestRootLogsInToTheHosts(t *testing.T) {
	s := start(t, t.TempDir())
	require.Contains(t, s.Hosts, "pve1")
	signer, err := ssh.LoadSigner(s.Jump.KeyFile)
	require.NoError(t, err)
	key := func(line string) ssh.PublicKey {
		k, err := ssh.ParseAuthorizedKey(line)
		require.NoError(t, err)
		return k
	}
	jump := ssh.New(ssh.Config{Addr: s.Jump.Address, User: s.Jump.User, Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key(s.Jump.HostKey))})
	defer jump.Close()
	root := ssh.New(ssh.Config{Addr: s.Hosts["pve1"].Address, User: "root", Signers: []ssh.Signer{signer},
		HostKeys: ssh.Pin(key(s.Hosts["pve1"].HostKey)), Dial: jump.Dial})
	defer root.Close()
	out, err := remote.Output(t.Context(), root, "pvesh", "get", "/version", "--output-format", "json")
	require.NoError(t, err)
	assert.Contains(t, string(out), `"version"`)
}
