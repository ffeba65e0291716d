package ssh

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// wire is a connection that records what broke it: the protocol's library reports every end of
// a connection as an end of file.
type wire struct {
	net.Conn
	mu     sync.Mutex
	broken error
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.remember(err)
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.remember(err)
	return n, err
}

func (w *wire) remember(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return // an orderly end, or our own
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = err
	}
}

// explain adds what broke the connection to an error that it caused.
func (w *wire) explain(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil || w.broken == nil || errors.Is(err, w.broken) {
		return err
	}
	return fmt.Errorf("%w: %w", err, w.broken)
}

func (w *wire) hasBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken != nil
}
