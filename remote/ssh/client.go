package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote"
)

// maxSessions is how many commands run at a time over one connection. OpenSSH
// refuses an eleventh (sshd_config(5), MaxSessions).
const maxSessions = 8

// Client runs commands on one machine. It is safe for concurrent use: commands beyond the SSH
// server's limit wait for their turn.
type Client struct {
	cfg Config
	*sharedConn
}

// sharedConn is the connection to a machine, which several Clients may share.
type sharedConn struct {
	sessions chan struct{} // one token for each command that may run

	sem     chan struct{} // held while current is read or changed
	current *conn

	closing sync.Once
	closed  chan struct{}
}

var _ remote.Runner = (*Client)(nil)

// New makes a Client that connects when it is first used.
func New(cfg Config) *Client {
	return &Client{cfg: cfg, sharedConn: &sharedConn{
		sessions: make(chan struct{}, maxSessions),
		sem:      make(chan struct{}, 1),
		closed:   make(chan struct{}),
	}}
}

// WithDial returns a Client of the same connection. Where it has to connect first, it does so with dial
// and keys in place of [Config.Dial] and [Config.HostKeys]. Closing one of the two closes both.
func (c *Client) WithDial(dial func(ctx context.Context, network, addr string) (net.Conn, error),
	keys func(ctx context.Context, addr string) ([]PublicKey, error)) *Client {
	cfg := c.cfg
	cfg.Dial, cfg.HostKeys = dial, keys
	return &Client{cfg: cfg, sharedConn: c.sharedConn}
}

// Dial makes a Client and connects it, once. To wait for a machine that boots, retry while the
// error is transient ([UnreachableError.Transient]).
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c := New(cfg)
	if _, err := c.connection(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes the connection and ends everything that still runs on it.
func (c *Client) Close() error {
	c.closing.Do(func() { close(c.closed) }) // also ends a connect in progress
	c.sem <- struct{}{}
	defer func() { <-c.sem }()
	if c.current != nil {
		c.current.close()
		c.current = nil
	}
	return nil
}

// errClosed is what ends a connect in progress when the client is closed.
var errClosed = fmt.Errorf("ssh: the client is closed: %w", net.ErrClosed)

// connection returns the live connection, or makes a new one.
func (c *Client) connection(ctx context.Context) (*conn, error) {
	select {
	case c.sem <- struct{}{}:
		defer func() { <-c.sem }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // also where both were ready
		return nil, interruptionError(ctx, "connecting to "+c.cfg.Addr)
	}
	select {
	case <-c.closed:
		return nil, errClosed
	default:
	}
	if c.current != nil {
		if c.current.alive(ctx) {
			return c.current, nil
		}
		// Do not wait: closing a connection that hangs may take long.
		go c.current.close()
		c.current = nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.closed:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	made, err := connect(ctx, &c.cfg)
	if err != nil {
		return nil, err
	}
	c.current = made
	return made, nil
}

// Run implements [remote.Runner]. The command is run by the login shell of the
// user, which must quote as POSIX says; nothing in its arguments is expanded.
//
// When ctx ends, the command is sent SIGTERM, as far as the server allows that (OpenSSH
// signals the user's own processes, so not one that sudo started), and nothing is written to
// its Stdout and Stderr after Run returned. A Stdin that blocks forever is abandoned; it is
// read at most once more.
func (c *Client) Run(ctx context.Context, cmd remote.Cmd) error {
	line, err := quote(cmd.Args)
	if err != nil {
		return err
	}
	for again := false; ; again = true {
		select {
		case c.sessions <- struct{}{}:
		case <-ctx.Done():
			return interruptionError(ctx, cmd.String())
		}
		leave := func() { <-c.sessions }
		on, err := c.connection(ctx)
		if err != nil {
			leave()
			return err
		}
		err = newProcess(on, cmd, line).run(ctx, leave)
		if errors.Is(err, errNotStarted) && !again {
			c.drop(on) // it broke while it was idle
			continue
		}
		return err
	}
}

// Dial opens a TCP connection from the machine to addr, which is a name or an address as that
// machine sees it. ctx limits only the dialling.
func (c *Client) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if _, port, err := net.SplitHostPort(addr); err != nil || network != "tcp" {
		return nil, fmt.Errorf("ssh: cannot dial %s %q: it must be tcp and host:port", network, addr)
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("ssh: cannot dial %q: %w", addr, err)
	}
	for again := false; ; again = true {
		on, err := c.connection(ctx)
		if err != nil {
			return nil, err
		}
		done := on.use()
		nc, err := openChannel(on, func() (net.Conn, error) { return on.DialContext(ctx, network, addr) })
		if err == nil {
			return newTunnel(nc, done), nil
		}
		done()
		if ctx.Err() != nil {
			return nil, interruptionError(ctx, fmt.Sprintf("dialling %s through %s", addr, c.cfg.Addr))
		}
		var refused *xssh.OpenChannelError
		if !errors.As(err, &refused) && !again {
			c.drop(on) // it broke while it was idle
			continue
		}
		return nil, &UnreachableError{Addr: addr, Via: c.cfg.Addr, Err: explainRefusal(err)}
	}
}

// drop abandons a broken connection.
func (c *Client) drop(broken *conn) {
	c.sem <- struct{}{}
	defer func() { <-c.sem }()
	if c.current == broken {
		c.current = nil
	}
	// Do not wait: closing a connection that hangs may take long.
	go broken.close()
}

// explainRefusal adds what to do to a server's refusal to open a channel.
func explainRefusal(err error) error {
	var refused *xssh.OpenChannelError
	if errors.As(err, &refused) && refused.Reason == xssh.Prohibited {
		return fmt.Errorf("it does not forward connections (AllowTcpForwarding and PermitOpen of its sshd_config): %w", err)
	}
	return err
}
