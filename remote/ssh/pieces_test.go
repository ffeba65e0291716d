package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/cps-gpu/homelab/remote"
)

func someKey(t *testing.T, seed byte) xssh.PublicKey {
	t.Helper()
	signer, err := SeedSigner([]byte(strings.Repeat(string(rune(seed)), 32)))
	require.NoError(t, err)
	return signer.PublicKey()
}

// oddRing is an agent with a key of a type that nobody knows before those that it is given.
type oddRing struct{ agent.Agent }

func (r oddRing) List() ([]*agent.Key, error) {
	keys, err := r.Agent.List()
	odd := &agent.Key{Format: "future", Blob: xssh.Marshal(struct{ Name string }{"future"})}
	return append([]*agent.Key{odd}, keys...), err
}

// agentAt has serve answer each connection to a socket.
func agentAt(t *testing.T, serve func(net.Conn)) string {
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return socket
}

// A key that is useless hides none of those after it.
func TestAgentWithAKeyOfTheFuture(t *testing.T) {
	ring := agent.NewKeyring()
	private, _, err := GenerateKey()
	require.NoError(t, err)
	raw, err := xssh.ParseRawPrivateKey(private)
	require.NoError(t, err)
	require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: raw}))
	signers, err := AgentSigners(t.Context(), agentAt(t, func(c net.Conn) { _ = agent.ServeAgent(oddRing{ring}, c) }))
	require.NoError(t, err)
	require.Len(t, signers, 1)
	require.NoError(t, ring.RemoveAll())
	_, err = signers[0].Sign(nil, []byte("x"))
	assert.ErrorContains(t, err, "SSH agent")
}

// An agent that fails is named; one that is not waited for any longer is an end of ctx,
// and what came before the end counts.
func TestAgentThatFails(t *testing.T) {
	hangsUp := agentAt(t, func(c net.Conn) { _ = c.Close() })
	_, err := AgentSigners(t.Context(), hangsUp)
	require.ErrorContains(t, err, "SSH agent "+hangsUp+": ")
	require.NotErrorIs(t, err, context.Canceled)

	asked := make(chan struct{})
	silent := agentAt(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); close(asked) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err = AgentSigners(ctx, silent)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "asking the SSH agent")

	ctx, cancel = context.WithCancel(t.Context())
	require.NoError(t, withAgent(ctx, hangsUp, func(agent.ExtendedAgent) error { cancel(); return nil }))
}

// Only a server that forbids it is told about its configuration.
func TestExplainRefusal(t *testing.T) {
	plain := errors.New("broken")
	assert.Equal(t, plain, explainRefusal(plain))
	failed := &xssh.OpenChannelError{Reason: xssh.ConnectionFailed, Message: "refused"}
	assert.Equal(t, error(failed), explainRefusal(failed))
	assert.ErrorContains(t, explainRefusal(fmt.Errorf("x: %w", &xssh.OpenChannelError{Reason: xssh.Prohibited})), "AllowTcpForwarding")
}

func TestDialWantsTCPAndAPort(t *testing.T) {
	c := New(Config{Addr: "node:22", Dial: func(context.Context, string, string) (net.Conn, error) { panic("dialled") }})
	for _, to := range [][2]string{{"udp", "db:5432"}, {"tcp", "db"}, {"udp", "db"}, {"tcp4", "db:5432"}, {"tcp", ""}} {
		_, err := c.Dial(t.Context(), to[0], to[1])
		assert.ErrorContains(t, err, "it must be tcp and host:port", "%v", to)
	}
	_, err := c.Dial(t.Context(), "tcp", "db:http")
	assert.ErrorContains(t, err, `cannot dial "db:http"`)
}

// A command that finds no connection leaves room for the next.
func TestNoConnectionKeepsNoSession(t *testing.T) {
	c := New(Config{Addr: "node:22"})
	require.NoError(t, c.Close())
	for range maxSessions + 1 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := c.Run(ctx, remote.Cmd{Args: []string{"true"}})
		cancel()
		require.ErrorIs(t, err, errClosed)
	}
}

// A writer into a tunnel hears that the other end is gone.
func TestTunnelToNobody(t *testing.T) {
	near, far := net.Pipe()
	require.NoError(t, far.Close())
	tun := newTunnel(near, func() {})
	_, err := tun.Write([]byte("x"))
	if err == nil { // it was under way
		_, err = tun.Write([]byte("x"))
	}
	require.Error(t, err)
}

// What a server refuses is refused: nobody asks it again over another connection.
func TestARefusalIsNotAskedForAgain(t *testing.T) {
	f := &far{refuse: func() {}}
	c := New(Config{Addr: "node:22"})
	c.current = &conn{Client: &xssh.Client{Conn: f}, every: time.Hour, closed: make(chan struct{})}
	c.current.used.Store(time.Now().UnixNano())
	_, err := c.Dial(t.Context(), "tcp", "db:5432")
	var out *UnreachableError
	require.ErrorAs(t, err, &out)
	assert.Equal(t, "node:22", out.Via)
	assert.Equal(t, 1, f.opens)
}

// Between two tries the pause doubles: five tries take 10, 20, 40 and 80 milliseconds,
// and no pause is longer than 200.
func TestPausesBetweenSessions(t *testing.T) {
	for others, want := range map[int]time.Duration{0: 150 * time.Millisecond, 1: 310 * time.Millisecond, 3: 710 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f := &far{}
			c := &conn{Client: &xssh.Client{Conn: f}, addr: "node:22"}
			c.running.Store(1)
			f.refuse = func() {
				if f.opens > others {
					c.running.Store(0)
				}
			}
			begun := time.Now()
			_, err := c.session(t.Context())
			require.Error(t, err)
			require.Equal(t, want, time.Since(begun), "%d others", others)
		})
	}
}

// A connection that nobody uses is left in peace; one that is used is asked each time.
func TestKeepAliveAsksForUsers(t *testing.T) {
	for users, want := range map[int64]int{0: 0, 1: 3, 2: 3} {
		synctest.Test(t, func(t *testing.T) {
			f := &far{}
			c := &conn{Client: &xssh.Client{Conn: f}, every: time.Minute, closed: make(chan struct{})}
			c.users.Store(users)
			go c.keepAlive()
			time.Sleep(3*time.Minute + time.Second)
			close(c.closed)
			synctest.Wait()
			assert.Equal(t, want, f.pings, "%d users", users)
		})
	}
}

// The file is read again when anything of it has changed, and only then.
func TestKnownHostsAreReadWhenTheyChange(t *testing.T) {
	a, b := someKey(t, 'a'), someKey(t, 'b')
	path := filepath.Join(t.TempDir(), "known_hosts")
	k := NewKnownHosts(path)
	knows := func(what string, keys ...xssh.PublicKey) {
		t.Helper()
		got, err := k.Lookup("node:22")
		require.NoError(t, err)
		require.Len(t, got, len(keys), what)
		for i := range keys {
			require.True(t, sameKey(keys[i], got[i]), what)
		}
	}
	early, late := time.Unix(1e9, 0), time.Unix(1e9+1, 0)
	write := func(file string, when time.Time, text string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(file, when, when))
	}
	line := func(key xssh.PublicKey) string { return knownhosts.Line([]string{"node"}, key) + "\n" }
	knows("no file")
	write(path, early, line(a))
	knows("a file comes", a)
	k.parsed = nil
	knows("what is as it was is not read")
	write(path, late, line(b))
	knows("another time", b)
	write(path, late, line(b)+line(a))
	knows("another size", b, a)
	write(path+".new", late, line(a)+line(b))
	require.NoError(t, os.Rename(path+".new", path))
	knows("another file", a, b)
	require.NoError(t, os.Remove(path))
	knows("the file goes")
	write(path, late, line(a)+line(b))
	knows("and comes again", a, b)
}

// Nothing is held back that the file says already, and a file that is right stays, also
// without an end of its last line.
func TestKnownHostsThatAreRight(t *testing.T) {
	a, b := someKey(t, 'a'), someKey(t, 'b')
	path := filepath.Join(t.TempDir(), "known_hosts")
	text := "@revoked node " + string(xssh.MarshalAuthorizedKey(b)) + knownhosts.Line([]string{"node"}, a)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	k := NewKnownHosts(path)
	k.DeferWrites()
	require.NoError(t, k.Store("node:22", a))
	require.False(t, k.Unsaved())
	require.NoError(t, k.Store("node:22", b))
	require.True(t, k.Unsaved())
	k.Discard()
	require.NoError(t, k.Flush())
	require.NoError(t, k.Store("node:22", a))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(after))
	require.NoError(t, k.Store("node:22"))
	after, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "@revoked node "+string(xssh.MarshalAuthorizedKey(b)), string(after), "what is revoked stays revoked")
}

func TestHashedNames(t *testing.T) {
	good := knownhosts.HashHostname("node")
	require.True(t, hashed(good, "node"))
	rest := strings.TrimPrefix(good, "|1|")
	for _, bad := range []string{"x|1|" + rest, "|2|" + rest, good + "|", "|1|", "|", "", "node", "||1|" + rest, "|1|?|" + rest, strings.Replace(good, "=", "?", 1)} {
		require.False(t, hashed(bad, "node"), bad)
	}
	require.False(t, hashed(good, "other"))
}

// What could not be put in place leaves nothing beside it.
func TestWriteAtomicallyLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	require.NoError(t, os.MkdirAll(filepath.Join(taken, "x"), 0o755))
	require.Error(t, writeAtomically(taken, []byte("x"), 0o600))
	require.NoError(t, writeAtomically(filepath.Join(dir, "free"), []byte("x"), 0o600))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
}

// atOnce hands out its text and the end of it in one go, as an io.Reader may.
type atOnce struct{ text string }

func (r *atOnce) Read(b []byte) (int, error) { return copy(b, r.text), io.EOF }

type brokenPipe struct{ closed bool }

func (*brokenPipe) Write([]byte) (int, error) { return 0, io.EOF }
func (p *brokenPipe) Close() error            { p.closed = true; return nil }

// A program that reads no further is not a failure of its input; a reader that fails is,
// and then no end of file is sent.
func TestFeed(t *testing.T) {
	for name, c := range map[string]struct {
		in     io.Reader
		failed bool
	}{
		"nothing to read": {nil, false},
		"not read":        {&atOnce{"text"}, false},
		"not read, slow":  {io.MultiReader(strings.NewReader("a"), strings.NewReader("b")), false},
		"a bad reader":    {failing{errors.New("disk")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			to, failed := &brokenPipe{}, false
			(&process{cmd: remote.Cmd{Stdin: c.in}}).feed(to, func(error) { failed = true })
			assert.Equal(t, c.failed, failed)
			assert.Equal(t, !c.failed, to.closed)
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A cancellation waits a quarter of the grace for a blocked writer, and no longer.
func TestDetachFromAWriterThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := make(chan struct{}, 1)
		o := &output{sem: turn, to: io.Discard}
		o.detach()
		assert.Nil(t, o.to)
		turn <- struct{}{} // it is writing
		o.to = io.Discard
		begun := time.Now()
		o.detach()
		assert.Equal(t, 20*time.Millisecond, time.Since(begun))
		assert.NotNil(t, o.to)
	})
}

// A command that could not be started is lost where the connection broke, and refused where
// the server said so.
func TestNotStarted(t *testing.T) {
	refusal := errors.New("ssh: command x failed")
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		broken, err error
		lost        bool
	}{
		"an end of file":     {nil, io.EOF, true},
		"closed by us":       {nil, fmt.Errorf("write: %w", net.ErrClosed), true},
		"the wire broke":     {reset, refusal, true},
		"it broke, and said": {reset, fmt.Errorf("write: %w", reset), true},
		"the very error":     {reset, reset, true},
		"the server said no": {nil, refusal, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &process{conn: &conn{addr: "node:22", wire: &wire{broken: c.broken}}, cmd: remote.Cmd{Args: []string{"x"}}}
			err := p.startError(c.err)
			var lost *LostError
			assert.Equal(t, c.lost, errors.As(err, &lost), "%v", err)
		})
	}
}

// The first thing that breaks a wire is remembered; an orderly end is nothing broken.
func TestWireRemembersWhatBrokeIt(t *testing.T) {
	first, second, seen := errors.New("reset"), errors.New("timeout"), errors.New("handshake failed")
	for _, orderly := range []error{nil, io.EOF, net.ErrClosed, fmt.Errorf("x: %w", net.ErrClosed), fmt.Errorf("x: %w", io.EOF)} {
		w := &wire{}
		w.remember(orderly)
		assert.False(t, w.hasBroken(), "%v", orderly)
		assert.Equal(t, seen, w.explain(seen))
		w.remember(first)
		assert.True(t, w.hasBroken())
		w.remember(second)
		assert.EqualError(t, w.explain(seen), "handshake failed: reset")
		assert.Equal(t, first, w.explain(first))
		assert.NoError(t, w.explain(nil))
	}
}

// fullDisk takes nothing, and counts what it was asked for.
type fullDisk int

func (f *fullDisk) Write([]byte) (int, error) { *f++; return 0, errors.New("full") }

// A writer that has failed is not asked again, and the command goes on.
func TestAWriterThatFails(t *testing.T) {
	var to fullDisk
	var said []error
	o := &output{sem: make(chan struct{}, 1), to: &to, fail: func(err error) { said = append(said, err) }}
	for range 3 {
		n, err := o.Write([]byte("abc"))
		require.NoError(t, err)
		assert.Equal(t, 3, n)
	}
	assert.EqualValues(t, 1, to)
	assert.Equal(t, []error{errors.New("full")}, said)
}
