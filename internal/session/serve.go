package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Serve serves a page of this machine until the context ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ConnState: new(idleConns).state}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// mostWaiting is how many connections may be open without a request. Any user of this machine
// can open them, and without a limit they take all the files that a process may open.
const mostWaiting = 64

// idleConns are the connections without a request, the oldest first.
type idleConns struct {
	mu  sync.Mutex
	all []net.Conn
}

// state closes the oldest connection without a request if there are too many: a browser sends
// its request at once.
func (w *idleConns) state(c net.Conn, now http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(other net.Conn) bool { return other == c })
	if now != http.StateNew && now != http.StateIdle {
		return
	}
	if w.all = append(w.all, c); len(w.all) > mostWaiting {
		_ = w.all[0].Close()
		w.all = w.all[1:]
	}
}

// Browse has the user's browser open an address, on request. It does not wait for the browser;
// failed is told if there is none. All users of this machine can read a program's arguments, so
// an address that is secret is not one of them: the browser gets a file that leads there, which
// only this user may read.
func Browse(ctx context.Context, address string, private bool, failed func(error)) {
	if private {
		file, err := leading(address)
		if err != nil {
			failed(fmt.Errorf("-browser: %w", err))
			return
		}
		context.AfterFunc(ctx, func() { _ = os.RemoveAll(filepath.Dir(file)) })
		address = file
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, address) // it may be the browser itself
	if err := cmd.Start(); err != nil {
		failed(fmt.Errorf("-browser: %w", err))
		return
	}
	go func() {
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			failed(fmt.Errorf("-browser: %s: %w", program, err))
		}
	}()
}

// leading writes a page that leads to an address, where no other user can read it.
func leading(address string) (string, error) {
	dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "homelab-") // mode 0700
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "open.html")
	page := fmt.Sprintf("<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;url=%s\"><title>homelab</title>\n", address)
	return file, os.WriteFile(file, []byte(page), 0o600)
}
