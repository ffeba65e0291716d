package labctl_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/labctl"
)

func Example() {
	ctx := converge.WithProgress(context.Background(), func(u converge.ProgressUpdate) { fmt.Fprintln(os.Stderr, u) })
	lab, err := labctl.Find(ctx, "testdata/none")
	if err != nil {
		fmt.Println(err) // and labctl.Start would build and start one
		return
	}
	fmt.Println(lab.Endpoint, lab.TokenID)
	// Output: the lab is not running
}

// endpoint listens with a certificate and returns where, and its fingerprint.
func endpoint(t *testing.T) (url, fingerprint string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = conn.(*tls.Conn).Handshake(); _ = conn.Close() }()
		}
	}()
	return "https://" + l.Addr().String(), labctl.Fingerprint(der)
}

func TestFindTellsALabFromItsRemains(t *testing.T) {
	dir := t.TempDir()
	url, fingerprint := endpoint(t)
	want := labctl.State{PID: 1, Started: time.Unix(1_800_000_000, 0).UTC(), Model: "eight-a100", Endpoint: url, Fingerprint: fingerprint}
	require.NoError(t, labctl.WriteState(dir, want))
	_, err := labctl.Find(t.Context(), dir)
	require.ErrorIs(t, err, labctl.ErrNotRunning, "a lab.json without a lab")

	alive, err := labctl.LockRunning(dir)
	require.NoError(t, err)
	got, err := labctl.Find(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	_, err = labctl.LockRunning(dir)
	require.ErrorContains(t, err, "a lab runs in "+dir+" already")

	want.Fingerprint = strings.Repeat("00:", 31) + "00"
	require.NoError(t, labctl.WriteState(dir, want))
	_, err = labctl.Find(t.Context(), dir)
	require.ErrorContains(t, err, "runs but does not answer")
	require.ErrorContains(t, err, "has the fingerprint "+fingerprint)

	alive.Unlock()
	_, err = labctl.Find(t.Context(), dir)
	require.ErrorIs(t, err, labctl.ErrNotRunning)
	require.NoError(t, labctl.Stop(t.Context(), dir))
	assert.NoFileExists(t, filepath.Join(dir, "lab.json"))
}

// program makes a script that plays the lab's program.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "labd")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	return path
}

func TestALabThatEndsAtOnceSaysWhy(t *testing.T) {
	const last = `echo 'time=2026-11-20 level=ERROR msg="no \"model\" of that name" model=x' >&2; exit 1`
	_, err := labctl.Start(t.Context(), labctl.Options{Dir: t.TempDir(), Binary: program(t, last)})
	require.ErrorContains(t, err, `the lab ended (exit status 1): no "model" of that name; its log is `)
}

func TestStartIsCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	dir := t.TempDir()
	began := time.Now()
	_, err := labctl.Start(ctx, labctl.Options{Dir: dir, Binary: program(t, "echo $$ > pid; echo 'making coffee'; exec sleep 60")})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "the lab is not ready (making coffee)")
	assert.Less(t, time.Since(began), 30*time.Second, "the program sleeps for 60 s")
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat("/proc/" + string(bytes.TrimSpace(pid)) + "/root"); err != nil {
			return
		}
	}
	assert.Fail(t, "what was started still runs")
}

func TestStartWaitsForALabThatIsStarting(t *testing.T) {
	dir := t.TempDir()
	url, fingerprint := endpoint(t)
	alive, err := labctl.LockRunning(dir) // another process's lab, not ready yet
	require.NoError(t, err)
	defer alive.Unlock()
	time.AfterFunc(200*time.Millisecond, func() {
		_ = labctl.WriteState(dir, labctl.State{PID: 1, Model: "eight-a100", Endpoint: url, Fingerprint: fingerprint})
	})
	s, err := labctl.Start(t.Context(), labctl.Options{Dir: dir, Binary: "/nonexistent"})
	require.NoError(t, err)
	assert.Equal(t, url, s.Endpoint)
}

func TestBuildNeedsTheSource(t *testing.T) {
	_, err := labctl.Build(t.Context(), labctl.Options{Dir: t.TempDir(), Source: "/"})
	require.ErrorContains(t, err, "no clone of github.com/cps-gpu/homelab at or above /")
	require.ErrorContains(t, err, "run this in a clone, or in a folder that homelab new FOLDER makes")
}

func TestBannerIsOneLine(t *testing.T) {
	for _, g := range []labctl.Guests{{}, {Kubernetes: true}, {Network: netip.MustParsePrefix("10.0.0.0/24")}} {
		assert.NotContains(t, g.Banner(), "\n")
		assert.LessOrEqual(t, len(g.Banner()), 80)
	}
}
