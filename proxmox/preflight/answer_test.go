package preflight

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// What proves that somebody has an address, and what proves nothing: a way to it that is down, or
// one that accepts everything.
func TestAnswer(t *testing.T) {
	dialled := func(errno error, at string) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(at)), Err: errno}
	}
	says := func(text string) func(string) (net.Conn, error) {
		return func(string) (net.Conn, error) {
			mine, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			go func() {
				if text == "" {
					return
				}
				_, _ = theirs.Write([]byte(text))
				_ = theirs.Close()
			}()
			return mine, nil
		}
	}
	fails := func(err error) func(string) (net.Conn, error) {
		return func(string) (net.Conn, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		dial func(at string) (net.Conn, error)
		want string
		time time.Duration
	}{
		"an SSH server":         {says("SSH-2.0-OpenSSH_9.6p1 Ubuntu\r\n"), `an SSH server answers there: "SSH-2.0-OpenSSH_9.6p1 Ubuntu"`, 0},
		"a closed port":         {func(at string) (net.Conn, error) { return nil, dialled(syscall.ECONNREFUSED, at) }, "something there refuses connections to port 6443", 0},
		"said by a jump host":   {fails(errors.New("ssh: rejected: connect failed (Connection refused)")), "something there refuses connections to port 6443", 0},
		"the jump host refuses": {fails(dialled(syscall.ECONNREFUSED, "192.0.2.1:22")), "", 0},
		"the proxy refuses":     {fails(&net.OpError{Op: "socks connect", Err: dialled(syscall.ECONNREFUSED, "192.0.2.1:1080")}), "", 0},
		"the proxy says so":     {fails(&net.OpError{Op: "socks connect", Err: errors.New("unknown error connection refused")}), "something there refuses connections to port 6443", 0},
		"nobody":                {fails(dialled(syscall.EHOSTUNREACH, "10.0.0.11:22")), "", 0},
		"a way that takes all":  {says(""), "", knockTime},
		"one that closes":       {says("\n"), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got := ProbeAddress(t.Context(), func(_ context.Context, _, at string) (net.Conn, error) { return c.dial(at) }, netip.MustParseAddr("10.0.0.11"))
				if c.want != "" && len(got) > 0 && got[:9] == "something" { // whichever port answers last
					got = got[:len("something there refuses connections to port ")] + "6443"
				}
				assert.Equal(t, c.want, got)
				assert.Equal(t, c.time, time.Since(start))
			})
		})
	}
}
