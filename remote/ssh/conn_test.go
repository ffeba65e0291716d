package ssh

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"
)

// far is a server's end that counts what it is asked, and opens no channel.
type far struct {
	xssh.Conn
	pings, opens int
	refuse       func() // is called at each refusal
}

func (f *far) SendRequest(string, bool, []byte) (bool, []byte, error) {
	f.pings++
	return false, nil, nil
}

func (f *far) OpenChannel(string, []byte) (xssh.Channel, <-chan *xssh.Request, error) {
	f.opens++
	f.refuse()
	return nil, nil, &xssh.OpenChannelError{Reason: xssh.Prohibited}
}

// A connection is asked for a sign of life where nobody uses it and it was idle for an
// interval, and only there: each question is a journey to the server and back.
func TestOnlyTheIdleAreAsked(t *testing.T) {
	for _, users := range []int64{0, 1, 7} {
		for _, idle := range []time.Duration{0, time.Minute - 1, time.Minute, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				f := &far{}
				c := &conn{Client: &xssh.Client{Conn: f}, every: time.Minute, closed: make(chan struct{})}
				c.used.Store(time.Now().Add(-idle).UnixNano())
				c.users.Store(users)
				require.True(t, c.alive(t.Context()))
				c.work.Wait()
				assert.Equal(t, users == 0 && idle >= time.Minute, f.pings > 0, "%d users, idle for %s", users, idle)
			})
		}
	}
}

// A server that refuses sessions is asked five times, counted from when the last of the
// others has gone.
func TestRefusedFiveTimes(t *testing.T) {
	for _, others := range []int{0, 1, 7} {
		synctest.Test(t, func(t *testing.T) {
			f := &far{}
			c := &conn{Client: &xssh.Client{Conn: f}, addr: "node:22"}
			c.running.Store(1)
			f.refuse = func() {
				if f.opens > others {
					c.running.Store(0)
				}
			}
			_, err := c.session(t.Context())
			var refused *xssh.OpenChannelError
			require.True(t, errors.As(err, &refused), "%v", err)
			require.ErrorContains(t, err, "MaxSessions")
			require.Equal(t, others+5, f.opens)
		})
	}
}

// A channel that gets no answer since the connection broke while it was opened: the next
// attempt has another connection, and nobody waits.
func TestAChannelThatGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mute := make(chan struct{})
		c := &conn{Client: &xssh.Client{Conn: &far{refuse: func() { <-mute }}}, addr: "node:22", wire: &wire{}, closed: make(chan struct{})}
		time.AfterFunc(time.Second, func() { close(c.closed) })
		began := time.Now()
		_, err := c.session(t.Context())
		require.ErrorIs(t, err, errNotStarted)
		assert.Equal(t, time.Second, time.Since(began))
		close(mute)
	})
}
