package report

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/secret"
)

// every is how often a browser loads a live page, and how old the state is at least before it is
// read again. Nothing is read while no browser asks.
const every = 5 * time.Second

// Watch serves a page about the cluster on the loopback address, until the context ends. The
// address has a random path, which other users of this machine do not know, and requests under
// another host's name are refused: a foreign web page could otherwise read the page through a
// name that it points at 127.0.0.1.
func Watch(s *session.Session, ctx context.Context, f session.WatchFlags) error { //nolint:revive // as the methods of Session
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", f.Port))
	if err != nil {
		return &session.Error{Code: invalid, Err: fmt.Errorf("-port=%d: %w", f.Port, err)}
	}
	w := &watcher{path: "/" + secret.Random(16).Reveal() + "/", host: l.Addr().String(),
		read: func() ([]byte, error) { return renderPage(ctx, s) }}
	_, port, _ := net.SplitHostPort(w.host)
	w.name = "localhost:" + port
	s.Printf("Reading %s …", s.Spec.Name)
	w.refresh()
	url := "http://" + w.host + w.path
	s.Printf("A page about %s is here until you press Ctrl-C. It is read again every %s while a browser shows it:", s.Spec.Name, every)
	if _, err := fmt.Fprintln(s.Data, url); err != nil {
		return err
	}
	if f.Browser {
		session.Browse(ctx, url, true, func(err error) { s.Printf("warning: %s", err) })
	}
	return session.Serve(ctx, l, w)
}

// policy is that of the page, and forbids other pages to show it in a frame.
const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// renderPage reads the state and returns the page.
func renderPage(ctx context.Context, s *session.Session) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	rec := &recorder{}
	plan, err := s.Cluster.Up().PlanWithEvents(ctx, nil)
	rec.RecordPlan(plan)
	return request{command: "cluster:watch", rec: rec, err: err, every: every}.render(ctx, s)
}

// watcher serves the latest page.
type watcher struct {
	path, host, name string
	read             func() ([]byte, error)

	mu      sync.Mutex
	page    []byte
	err     error
	at      time.Time // when page was read
	reading bool
}

// ServeHTTP sends the page as it was read last, and has it read again if it is old.
func (w *watcher) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	switch {
	case r.Host != w.host && r.Host != w.name:
		http.Error(out, "the page is at http://"+w.host+" only", http.StatusMisdirectedRequest)
		return
	case r.URL.Path != w.path:
		http.NotFound(out, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(out, "only GET", http.StatusMethodNotAllowed)
		return
	}
	w.mu.Lock()
	switch age := time.Since(w.at); {
	case w.reading || age < every:
	case age < 3*every:
		w.reading = true
		go w.refresh()
	default: // no browser has asked for a while: what is shown first is of now
		w.reading = true
		w.mu.Unlock()
		w.refresh()
		w.mu.Lock()
	}
	page, err := w.page, w.err
	w.mu.Unlock()
	h := out.Header()
	h.Set("Refresh", fmt.Sprint(int(every/time.Second)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", policy)
	if err != nil {
		http.Error(out, "the page cannot be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = out.Write(page)
}

// refresh reads the page.
func (w *watcher) refresh() {
	page, err := w.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.page, w.err, w.at, w.reading = page, err, time.Now(), false
}
