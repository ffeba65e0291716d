package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// world is the simulated site.
type world struct {
	sim      *pvesim.Sim
	first    string // host
	requests *requestLog
	talk     *slog.Logger
}

func (p *program) makeWorld(o serving, model pvesim.Model, speed float64) (*world, error) {
	w := &world{first: model.Hosts[0].Name, talk: slog.New(slog.DiscardHandler)}
	options := pvesim.Options{Speed: speed, Lean: true}
	if o.log {
		w.talk = slog.New(slog.NewTextHandler(p.talk, &slog.HandlerOptions{Level: slog.LevelDebug}))
		options.Log = w.talk
	}
	if o.requests != "" {
		file, err := os.OpenFile(o.requests, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("-requests: %w", err)
		}
		w.requests = &requestLog{to: file}
		options.Heard = w.requests.hear
	}
	if o.internet != "" {
		if info, err := os.Stat(o.internet); err != nil || !info.IsDir() {
			return nil, usageError{fmt.Errorf("-internet %s: name a folder with the files that downloads are to find", o.internet)}
		}
		options.Internet = folderInternet(o.internet)
	}
	w.sim = pvesim.New(model, options)
	return w, nil
}

func (w *world) close() {
	w.sim.Close()
	w.requests.close()
}

// dial connects to machines.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return w.sim.Network().Dial(ctx, network, address)
}

// headerTime is how long a client may take to send a request's head.
const headerTime = 30 * time.Second

// serve serves the API until ctx ends; HTTP/1.1 only, as pveproxy does.
func (w *world) serve(ctx context.Context, l net.Listener) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	server := &http.Server{Handler: w.sim.Handler(), Protocols: protocols, ReadHeaderTimeout: headerTime,
		ErrorLog: slog.NewLogLogger(w.talk.Handler(), slog.LevelDebug)}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("pvesim: %w", err)
	}
	return nil
}

// requestLog writes clients' requests, one line of JSON each.
type requestLog struct {
	mu sync.Mutex
	to io.WriteCloser
}

func (l *requestLog) hear(r pvesim.Request) {
	line, err := json.Marshal(struct {
		Method string     `json:"method"`
		Path   string     `json:"path"`
		Params url.Values `json:"params,omitempty"`
		User   string     `json:"user"`
		Status int        `json:"status"`
		Error  string     `json:"error,omitempty"`
	}{r.Method, r.Path, r.Params, r.User, r.Status, r.Message})
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.to.Write(append(line, '\n'))
}

func (l *requestLog) close() {
	if l != nil {
		_ = l.to.Close()
	}
}

// folderInternet finds files of a folder by the last part of a URL's path, and everything else
// in the simulated internet.
func folderInternet(dir string) guest.Internet {
	otherwise := guest.DefaultInternet()
	return func(raw string) ([]byte, error) {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err
		}
		if name := path.Base(u.Path); name != "." && name != "/" {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if !errors.Is(err, os.ErrNotExist) {
				return b, err
			}
		}
		return otherwise(raw)
	}
}

// version prints what this is.
func (p *program) version() error {
	ours := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		ours = info.Main.Version
	}
	_, err := fmt.Fprintf(p.out, "pvesim %s, plays Proxmox VE %s\n", ours, pvesim.EightA100().Version)
	return err
}
