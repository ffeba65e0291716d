package fleet_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

// advertise writes the branches of a repository that has 200 MiB of them.
func advertise(w io.Writer) (sent int) {
	line := fmt.Sprintf("%040d HEAD\x00side-band-64k shallow ofs-delta\n", 1)
	_, err := fmt.Fprintf(w, "%04x%s", len(line)+4, line)
	for i := 0; err == nil && sent < 200<<20; i++ {
		line := fmt.Sprintf("%040d refs/heads/%0900d\n", 1, i)
		_, err = fmt.Fprintf(w, "%04x%s", len(line)+4, line)
		sent += len(line) + 4
	}
	return sent
}

// A server that goes on and on about its branches is left, over HTTP as over SSH.
func TestAdvertisementsHaveABound(t *testing.T) {
	const want = "reading its branches: it has more than 32 MiB"
	sent := make(chan int, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000")
		sent <- advertise(w)
	}))
	defer srv.Close()
	_, err := fleet.Remote{URL: srv.URL + "/infra.git"}.Push(t.Context(), fleet.Tree{"a.yaml": []byte("a: b\n")}, fleet.PushOptions{})
	require.ErrorContains(t, err, want)
	assert.NotErrorIs(t, err, fleet.ErrLost)
	assert.Less(t, <-sent, 100<<20)

	host, ours := sshKey(t), sshKey(t)
	talker := &sshserver.Server{HostKey: host, Authorize: func(string, ssh.PublicKey) error { return nil },
		Exec: func(_ context.Context, _, _ string, _ io.Reader, stdout, _ io.Writer) int {
			sent <- advertise(stdout)
			return 0
		}}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = talker.Serve(ctx, l) }()
	defer func() { stop(); <-ended }()
	r := fleet.Remote{URL: "ssh://git@" + l.Addr().String() + "/infra.git", Signers: []ssh.Signer{ours}, HostKeys: ssh.Pin(host.PublicKey())}
	_, err = r.Push(t.Context(), fleet.Tree{"a.yaml": []byte("a: b\n")}, fleet.PushOptions{})
	require.ErrorContains(t, err, want)
	assert.Less(t, <-sent, 100<<20)
}

// What a server says beside its report is kept as far as it is shown.
func TestWordsBesideTheReportHaveABound(t *testing.T) {
	eachWithCommit(t, func(t *testing.T, s server) {
		s.hook(t, "pre-receive", "yes 'we are closed' | head -c 3000000 >&2; exit 1\n")
		_, err := s.remote.Push(t.Context(), tree(t), fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrRefused)
		require.ErrorContains(t, err, "we are closed we are closed")
		assert.Less(t, len(err.Error()), 2000)
		assert.Equal(t, 1, strings.Count(err.Error(), "…"))
	})
}
