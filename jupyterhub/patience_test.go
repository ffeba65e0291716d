package jupyterhub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/websocket"

	"github.com/cps-gpu/homelab/secret"
)

// scripted is a hub with one profile, by JupyterHub's API, whose requests fail as a test wants.
type scripted struct {
	mu      sync.Mutex
	asked   []string
	fail    func(n int, what string) fault
	user    bool
	server  string // "", spawn, ready, stop
	since   time.Time
	spawned int
}

// fault is how a request fails.
type fault string

const (
	none    fault = ""
	dropped fault = "dropped"        // before anything was done
	unheard fault = "unheard"        // it was done, and the answer is lost
	away    fault = "503"            // from what stands before the hub
	refused fault = "403"            // for good
	slow          = 15 * time.Second // a server takes to start
	goes          = 5 * time.Second  // and to stop
	me            = "/hub/api/users/" + verifyUser
)

// pipes is a network of one listener.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "hub"} }
func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + r.URL.Path
	h.mu.Lock()
	n := len(h.asked)
	h.asked = append(h.asked, what)
	h.mu.Unlock()
	switch f := h.fail(n, what); f {
	case dropped:
		panic(http.ErrAbortHandler)
	case away:
		http.Error(w, "no available server", http.StatusServiceUnavailable)
	case refused:
		http.Error(w, `{"message": "you may not"}`, http.StatusForbidden)
	case unheard:
		h.answer(&deaf{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	default:
		h.answer(w, r)
	}
}

// deaf is what nobody hears.
type deaf struct{ header http.Header }

func (d *deaf) Header() http.Header         { return d.header }
func (d *deaf) Write(b []byte) (int, error) { return len(b), nil }
func (d *deaf) WriteHeader(int)             {}

// now is the state of the server by then.
func (h *scripted) now() string {
	switch {
	case h.server == "spawn" && time.Since(h.since) >= slow:
		h.server = "ready"
	case h.server == "stop" && time.Since(h.since) >= goes:
		h.server = ""
	}
	return h.server
}

func (h *scripted) answer(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	say := func(status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch what, is := r.Method+" "+r.URL.Path, h.now(); what {
	case "GET /hub/api/":
		say(200, map[string]string{"version": "5.2.1"})
	case "GET /hub/login":
		say(200, "come in")
	case "GET /hub/api/user":
		say(200, map[string]string{"kind": "service", "name": verifyService})
	case "POST " + me:
		if h.user {
			say(409, nil)
			return
		}
		h.user = true
		say(201, nil)
	case "DELETE " + me:
		if !h.user {
			say(404, nil)
			return
		}
		h.user = false
		say(204, nil)
	case "GET " + me:
		if !h.user {
			say(404, nil)
			return
		}
		servers := map[string]any{}
		if is != "" {
			pending := is
			if is == "ready" {
				pending = ""
			}
			servers[""] = map[string]any{"ready": is == "ready", "pending": pending, "url": "/user/x/"}
		}
		say(200, map[string]any{"servers": servers})
	case "POST " + me + "/server":
		if is != "" {
			say(400, map[string]string{"message": "it is pending " + is})
			return
		}
		h.server, h.since = "spawn", time.Now()
		h.spawned++
		say(202, nil)
	case "DELETE " + me + "/server":
		if is == "ready" {
			h.server, h.since = "stop", time.Now()
		}
		say(202, nil)
	case "GET " + me + "/server/progress":
		h.progress(w, is)
	case "GET /user/x/api/kernelspecs":
		spec := map[string]any{"spec": map[string]string{"language": "python"}}
		say(200, map[string]any{"default": "python3", "kernelspecs": map[string]any{"python3": spec}})
	case "POST /user/x/api/kernels":
		say(201, map[string]string{"id": "k1"})
	case "GET /user/x/api/kernels/k1/channels":
		if _, lost := w.(*deaf); !lost {
			websocket.Handler(kernel).ServeHTTP(w, r)
		}
	default:
		say(404, what)
	}
}

// progress is the hub's stream of events, which ends early here.
func (h *scripted) progress(w http.ResponseWriter, is string) {
	switch is {
	case "ready":
		_, _ = fmt.Fprint(w, "data: {\"message\": \"ready\", \"ready\": true}\n\n")
	case "spawn":
		_, _ = fmt.Fprint(w, "data: {\"message\": \"pulling\"}\n\n")
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

func kernel(ws *websocket.Conn) {
	var m struct {
		Header kernelHeader `json:"header"`
	}
	if websocket.JSON.Receive(ws, &m) != nil {
		return
	}
	for _, a := range []map[string]any{
		{"header": map[string]string{"msg_type": "stream"}, "content": map[string]any{
			"text": sightMark + `{"python": "3.13", "cpus": 2, "writable": true}` + "\n",
		}},
		{"header": map[string]string{"msg_type": "execute_reply"}, "content": map[string]any{"status": "ok"}},
		{"header": map[string]string{"msg_type": "status"}, "content": map[string]any{"execution_state": "idle"}},
	} {
		a["parent_header"] = m.Header
		_ = websocket.JSON.Send(ws, a)
	}
}

// verify runs a verification of a hub whose n-th request fails as fail says.
func (h *scripted) verify(t *testing.T, o Options) (results []Result, err error) {
	t.Helper()
	network := make(pipes)
	server := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(network) }()
	defer func() { _ = server.Close(); <-served }()
	return Verify(t.Context(), Client{URL: "http://hub.lab.example", Token: secret.New("x"), Dial: network.dial}, []Check{{Profile: "cpu"}}, o)
}

// TestEveryRequestMayFailForAWhile: what passes by itself is waited for, at whatever request,
// and what was done unheard is not done twice.
func TestEveryRequestMayFailForAWhile(t *testing.T) {
	total := 0
	synctest.Test(t, func(t *testing.T) {
		h := &scripted{fail: func(int, string) fault { return none }}
		_, err := h.verify(t, Options{})
		require.NoError(t, err)
		total = len(h.asked)
	})
	require.Greater(t, total, 12)
	for _, how := range []fault{dropped, unheard, away} {
		for at := range total {
			t.Run(fmt.Sprintf("%s %d", how, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &scripted{fail: func(n int, _ string) fault {
						if n >= at && n < at+3 {
							return how
						}
						return none
					}}
					results, err := h.verify(t, Options{})
					require.NoError(t, err, "%v", h.asked)
					require.Len(t, results, 1)
					assert.False(t, h.user, "nothing is left")
					assert.Equal(t, 1, h.spawned)
				})
			})
		}
	}
}

// TestWhatIsRefusedEndsAtOnce: with its words, and nothing left.
func TestWhatIsRefusedEndsAtOnce(t *testing.T) {
	for _, what := range []string{
		"GET /hub/api/user", "POST " + me + "/server", "GET " + me + "/server/progress", "GET /user/x/api/kernelspecs", "DELETE " + me,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				h := &scripted{fail: func(_ int, asked string) fault {
					if asked == what {
						return refused
					}
					return none
				}}
				_, err := h.verify(t, Options{})
				var said *APIError
				require.ErrorAs(t, err, &said)
				assert.Equal(t, http.StatusForbidden, said.Status)
				assert.Less(t, time.Since(begun), time.Minute)
			})
		})
	}
}

// TestAHubThatStaysAway ends after the time that there is, with what it said last.
func TestAHubThatStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		h := &scripted{fail: func(_ int, what string) fault {
			if strings.HasSuffix(what, "/progress") {
				return away
			}
			return none
		}}
		_, err := h.verify(t, Options{Start: 4 * time.Minute})
		require.ErrorContains(t, err, "its server was not ready within 4m0s: ")
		require.ErrorContains(t, err, "503 Service Unavailable: no available server")
		assert.InDelta(t, 4*time.Minute, time.Since(begun), float64(time.Minute))
		assert.False(t, h.user)
		assert.False(t, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, context.Canceled))
	})
}
