package ssh_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

// network is a simulated one: names of machines to servers, over net.Pipe.
type network struct {
	ctx      context.Context
	machines map[string]*sshserver.Server
	running  sync.WaitGroup

	mu    sync.Mutex
	dials int
	wires []*wire
}

// wire is a connection that can be cut without either end noticing.
type wire struct {
	net.Conn
	cut, closed chan struct{}
	cutting     sync.Once
	closing     sync.Once
}

func (w *wire) Cut() { w.cutting.Do(func() { close(w.cut) }) }

func (w *wire) Close() error {
	w.closing.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	select {
	case <-w.cut:
		<-w.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (w *wire) Write(p []byte) (int, error) {
	select {
	case <-w.cut:
		return len(p), nil // into the void, as into a socket's buffer
	default:
		return w.Conn.Write(p)
	}
}

func (n *network) Dial(_ context.Context, _, addr string) (net.Conn, error) {
	server, ok := n.machines[addr]
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.AddrError{Err: "no route to host", Addr: addr}}
	}
	near, far := net.Pipe()
	n.running.Go(func() { server.ServeConn(n.ctx, far) })
	w := &wire{Conn: near, cut: make(chan struct{}), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	n.wires = append(n.wires, w)
	return w, nil
}

// simulated runs the two commands that the machines here know.
func simulated(ctx context.Context, _, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	words := strings.Fields(strings.ReplaceAll(command, "'", ""))
	switch words[0] {
	case "sleep":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return 1
		}
		select {
		case <-time.After(d):
			return 0
		case <-ctx.Done():
			return -15
		}
	case "cat":
		_, _ = io.Copy(stdout, stdin)
		return 0
	default:
		_, _ = io.WriteString(stderr, "sh: "+words[0]+": not found\n")
		return 127
	}
}

// inBubble runs a test in virtual time, with a bastion and a machine behind it.
func inBubble(t *testing.T, test func(t *testing.T, n *network, bastion, node ssh.Config)) {
	synctest.Test(t, func(t *testing.T) { onNetwork(t, test) })
}

// onNetwork runs a test with a bastion and a machine behind it.
func onNetwork(t *testing.T, test func(t *testing.T, n *network, bastion, node ssh.Config)) {
	hostKey, _ := newKey(t)
	key, _ := newKey(t)
	ctx, cancel := context.WithCancel(context.Background())
	anybody := func(string, xssh.PublicKey) error { return nil }
	n := &network{ctx: ctx}
	n.machines = map[string]*sshserver.Server{
		"bastion:22":   {HostKey: hostKey, Authorize: anybody, Forward: n.Dial},
		"10.0.0.11:22": {HostKey: hostKey, Authorize: anybody, Exec: simulated},
	}
	cfg := ssh.Config{User: "ubuntu", Signers: []xssh.Signer{key}, HostKeys: ssh.Pin(hostKey.PublicKey()), Dial: n.Dial}
	bastion, node := cfg, cfg
	bastion.Addr, node.Addr = "bastion:22", "10.0.0.11:22"
	test(t, n, bastion, node)
	cancel()
	n.running.Wait()
}

func TestBubbleJump(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network, bastion, node ssh.Config) {
		jump := ssh.New(bastion)
		node.Dial = jump.Dial
		c := ssh.New(node)
		var out strings.Builder
		require.NoError(t, c.Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: strings.NewReader("hello"), Stdout: &out}))
		assert.Equal(t, "hello", out.String())
		assert.Equal(t, 2, n.dials)

		began := time.Now()
		require.NoError(t, remote.Run(t.Context(), c, "sleep", "5h"))
		assert.Equal(t, 5*time.Hour, time.Since(began), "alive for hours")

		time.Sleep(24 * time.Hour)
		require.NoError(t, remote.Run(t.Context(), c, "cat"))
		assert.Equal(t, 2, n.dials, "and after a day of rest")

		node.Addr = "10.0.0.99:22"
		_, err := ssh.Dial(t.Context(), node)
		assert.ErrorContains(t, err, "cannot reach 10.0.0.99:22 through bastion:22: ")
		assert.ErrorContains(t, err, "no route to host")
		require.NoError(t, c.Close())
		require.NoError(t, jump.Close())
	})
}

func TestBubbleCancelAcrossADeadWire(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network, _, node ssh.Config) {
		c, err := ssh.Dial(t.Context(), node)
		require.NoError(t, err)
		for _, name := range []string{"the server answers", "nothing does"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if name == "nothing does" {
				n.wires[0].Cut()
			}
			began := time.Now()
			err := remote.Run(ctx, c, "sleep", "1h")
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.LessOrEqual(t, time.Since(began), 10*time.Second+200*time.Millisecond, name)
			cancel()
		}
		require.NoError(t, c.Close())
	})
}

func TestBubbleDeadWireIsNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network, _, node ssh.Config) {
		c := ssh.New(node)
		time.AfterFunc(time.Minute, func() { n.wires[0].Cut() })
		began := time.Now()
		err := remote.Run(t.Context(), c, "sleep", "1h")
		var lost *ssh.LostError
		require.ErrorAs(t, err, &lost)
		assert.LessOrEqual(t, time.Since(began), time.Minute+30*time.Second, "one interval to ask, one to answer")

		require.NoError(t, remote.Run(t.Context(), c, "cat"))
		assert.Equal(t, 2, n.dials)

		n.wires[1].Cut()
		time.Sleep(time.Hour) // nobody needs it, nobody looks
		began = time.Now()
		require.NoError(t, remote.Run(t.Context(), c, "cat"))
		assert.Equal(t, 3, n.dials)
		assert.LessOrEqual(t, time.Since(began), 5*time.Second)
		require.NoError(t, c.Close())
	})
}

func TestBubbleDeadJump(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network, bastion, node ssh.Config) {
		jump := ssh.New(bastion)
		node.Dial = jump.Dial
		c := ssh.New(node)
		require.NoError(t, remote.Run(t.Context(), c, "cat"))
		n.wires[0].Cut() // to the bastion, and with it all that goes through it
		time.Sleep(time.Hour)
		require.NoError(t, remote.Run(t.Context(), c, "cat"))

		n.wires[len(n.wires)-2].Cut()
		began := time.Now()
		require.NoError(t, c.Close())
		require.NoError(t, jump.Close())
		assert.Zero(t, time.Since(began), "closing waits for no answer")
	})
}

// TestBubbleAllAtOnce has far more commands than sessions.
func TestBubbleAllAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network, _, node ssh.Config) {
		c := ssh.New(node)
		began := time.Now()
		var all sync.WaitGroup
		for range 80 {
			all.Go(func() { assert.NoError(t, remote.Run(t.Context(), c, "sleep", "1s")) })
		}
		all.Wait()
		assert.Equal(t, 10*time.Second, time.Since(began), "eight at a time")
		assert.Equal(t, 1, n.dials)
		require.NoError(t, c.Close())
	})
}
