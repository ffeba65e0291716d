package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/limit"
)

// connect dials and runs the handshake, until ctx or the config's time is over. It asks for
// the host keys only once the server answers, because that may be expensive.
func connect(ctx context.Context, cfg *Config) (*conn, error) {
	if cfg.HostKeys == nil {
		return nil, errors.New("ssh: Config.HostKeys is not set: nothing identifies the server")
	}
	signers, err := cfg.signers(ctx)
	if err != nil {
		return nil, err
	}
	converge.Progressf(ctx, "connecting to %s", cfg.Addr)
	dialled, err := withTimeout(ctx, cfg, cfg.dial)
	if err != nil {
		return nil, connectError(ctx, cfg, err)
	}
	nc := &wire{Conn: dialled}
	keys, err := cfg.hostKeys(ctx)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	hello := &handshake{cfg: cfg, wire: nc, pinned: keys, signers: signers, banner: limit.Buffer{Most: maxBanner}}
	client, err := withTimeout(ctx, cfg, func(ctx context.Context) (*xssh.Client, error) { return hello.run(ctx, nc) })
	if err != nil {
		return nil, connectError(ctx, cfg, nc.explain(err))
	}
	converge.Progressf(ctx, "connected to %s", cfg.Addr)
	return newConn(client, nc, cfg.Addr, cfg.keepAlive()), nil
}

// withTimeout does one half of connecting within the config's time.
func withTimeout[T any](ctx context.Context, cfg *Config, half func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.timeout())
	defer cancel()
	return half(ctx)
}

// connectError turns what went wrong while connecting into the error to return.
func connectError(ctx context.Context, cfg *Config, err error) error {
	if ctx.Err() != nil {
		return interruptionError(ctx, "connecting to "+cfg.Addr)
	}
	if isType[*HostKeyError](err) || isType[*AuthError](err) || isType[*UnreachableError](err) {
		return err // of this connection, or of a jump host on the way to it
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) { // the socket's error may come first
		err = fmt.Errorf("no answer within %s: %w", cfg.timeout(), err)
	}
	return &UnreachableError{Addr: cfg.Addr, Via: cfg.Via, Err: err}
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// handshake is one attempt to be let in.
type handshake struct {
	cfg     *Config
	wire    *wire
	pinned  []xssh.PublicKey
	signers []xssh.Signer

	known  bool          // the server's host key was verified
	wrong  *HostKeyError // otherwise the key that it showed
	banner limit.Buffer
	talker error // the banner is too long
}

// maxBanner is the most that a server may send before the login, in bytes.
const maxBanner = 64 << 10

// run runs the handshake over nc, and closes nc if it fails.
func (h *handshake) run(ctx context.Context, nc net.Conn) (*xssh.Client, error) {
	type result struct {
		client *xssh.Client
		err    error
	}
	done := make(chan result, 1)
	go func() {
		c, chans, reqs, err := xssh.NewClientConn(nc, h.cfg.Addr, h.config())
		if err != nil {
			done <- result{err: h.explain(err)}
			return
		}
		done <- result{client: xssh.NewClient(c, chans, reqs)}
	}()
	select {
	case r := <-done:
		return r.client, r.err
	case <-ctx.Done():
		// Ends the goroutine. Do not wait: closing a connection through a jump host that hangs
		// may take until that connection times out.
		go func() {
			_ = nc.Close()
			if r := <-done; r.client != nil {
				_ = r.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

func (h *handshake) config() *xssh.ClientConfig {
	return &xssh.ClientConfig{
		Config:            algorithms(),
		User:              h.cfg.User,
		Auth:              []xssh.AuthMethod{xssh.PublicKeys(h.signers...)},
		HostKeyAlgorithms: hostKeyAlgorithms(h.pinned),
		HostKeyCallback:   h.check,
		BannerCallback:    h.storeBanner,
	}
}

// storeBanner stores the server's banner.
func (h *handshake) storeBanner(text string) error {
	if _, err := h.banner.Write([]byte(text)); err != nil {
		h.talker = fmt.Errorf("reading its banner: %w", err)
	}
	return h.talker
}

// check accepts only the pinned keys. The server has then already proved that it has the
// private half.
func (h *handshake) check(_ string, _ net.Addr, shown xssh.PublicKey) error {
	for _, k := range h.pinned {
		if bytes.Equal(k.Marshal(), shown.Marshal()) {
			h.known = true
			return nil
		}
	}
	h.wrong = &HostKeyError{Addr: h.cfg.Addr, Want: fingerprints(h.pinned), Got: fingerprint(shown)}
	return h.wrong
}

// explain finds out what failed: our check of the server's key, the server's check of ours, or
// the network. It matches no text: how far the handshake got is known.
func (h *handshake) explain(err error) error {
	var disagree *xssh.AlgorithmNegotiationError
	var network net.Error
	switch {
	case h.wrong != nil:
		return h.wrong
	case h.talker != nil:
		return h.talker
	case errors.As(err, &disagree) && disagree.What == "host key":
		return &HostKeyError{Addr: h.cfg.Addr, Want: fingerprints(h.pinned), Has: disagree.RequestedAlgorithms}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.As(err, &network), h.wire.hasBroken():
		return fmt.Errorf("it accepts connections, but hangs up during the SSH handshake: %w", err)
	case h.known:
		return &AuthError{Addr: h.cfg.Addr, User: h.cfg.User, Offered: offeredKeys(h.signers), Banner: string(h.banner.Bytes()), Err: err}
	default:
		return err
	}
}
