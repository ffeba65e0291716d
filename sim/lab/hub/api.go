package hub

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// hubVersion is what the pinned chart brings.
const hubVersion = "5.5.0"

// hubError is JupyterHub's error response.
func hubError(w http.ResponseWriter, status int, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "message": fmt.Sprintf(format, args...)})
}

// handler is all that the hub answers: its API, its pages, and the users' servers behind it.
func (h *hub) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hub/health", func(http.ResponseWriter, *http.Request) {})
	h.api(mux)
	pages{h}.routes(mux)
	return http.NewCrossOriginProtection().Handler(mux)
}

// api adds the hub's REST API.
func (h *hub) api(mux *http.ServeMux) {
	mux.HandleFunc("GET /hub/api/{$}", func(w http.ResponseWriter, _ *http.Request) {
		traffic.Reply(w, map[string]string{"version": hubVersion})
	})
	mux.HandleFunc("GET /hub/api", func(w http.ResponseWriter, _ *http.Request) {
		traffic.Reply(w, map[string]string{"version": hubVersion})
	})
	mux.HandleFunc("GET /hub/api/user", h.as("", func(w http.ResponseWriter, _ *http.Request, service string) {
		traffic.Reply(w, map[string]any{"kind": "service", "name": service, "admin": false, "scopes": h.scopes(service)})
	}))
	mux.HandleFunc("GET /hub/api/users/{user}", h.as("admin:users", h.showUser))
	mux.HandleFunc("POST /hub/api/users/{user}", h.as("admin:users", h.addUser))
	mux.HandleFunc("DELETE /hub/api/users/{user}", h.as("admin:users", h.removeUser))
	mux.HandleFunc("POST /hub/api/users/{user}/server", h.as("servers", h.startServer))
	mux.HandleFunc("DELETE /hub/api/users/{user}/server", h.as("servers", h.stopServer))
	mux.HandleFunc("GET /hub/api/users/{user}/server/progress", h.as("servers", h.progress))
	mux.HandleFunc("/user/{user}/", h.as("access:servers", h.toServer))
	mux.HandleFunc("/hub/api/", func(w http.ResponseWriter, _ *http.Request) { hubError(w, http.StatusNotFound, "Not Found") })
}

// as accepts a request with the token of a service with a scope, or with the session of the
// user whose server it is about.
func (h *hub) as(scope string, next func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header, user := r.Header.Get("Authorization"), r.PathValue("user")
		token, ok := strings.CutPrefix(header, "token ")
		if !ok {
			token = strings.TrimPrefix(header, "Bearer ")
		}
		name, known := h.tokens[token]
		may := scope == "" || h.may(name, scope, user)
		if !known {
			if header == "" {
				name, known = h.session(r)
			} else {
				name, known = h.owner(token)
			}
			may = name == user && strings.HasSuffix(scope, "servers")
		}
		switch {
		case !known:
			hubError(w, http.StatusForbidden, "Missing or invalid credentials.")
		case !may:
			hubError(w, http.StatusForbidden, "Action is not authorized with current scopes; requires any of [%s]", scope)
		default:
			next(w, r, name)
		}
	}
}

// owner returns the user whose token it is.
func (h *hub) owner(token string) (user string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	user, ok = h.userTokens[token]
	return user, ok
}

func (h *hub) user(name string) *hubUser {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users[name]
}

func (h *hub) showUser(w http.ResponseWriter, r *http.Request, _ string) {
	h.mu.Lock()
	u := h.users[r.PathValue("user")]
	model := map[string]any{}
	if u != nil {
		servers := map[string]any{}
		if s := u.server; s != nil {
			var pending any
			if s.pending != "" {
				pending = s.pending
			}
			servers[""] = map[string]any{"name": "", "ready": s.ready, "pending": pending, "url": "/user/" + u.name + "/",
				"user_options": s.options, "progress_url": "/hub/api/users/" + u.name + "/server/progress", "state": map[string]any{"pod_name": s.pod}}
		}
		model = map[string]any{"kind": "user", "name": u.name, "admin": false, "groups": append([]string{}, u.groups...), "servers": servers}
	}
	h.mu.Unlock()
	if u == nil {
		hubError(w, http.StatusNotFound, "Not Found")
		return
	}
	traffic.Reply(w, model)
}

func (h *hub) addUser(w http.ResponseWriter, r *http.Request, _ string) {
	name := r.PathValue("user")
	h.mu.Lock()
	_, there := h.users[name]
	if !there {
		h.users[name] = &hubUser{name: name}
	}
	h.mu.Unlock()
	if there {
		hubError(w, http.StatusConflict, "User %s already exists", name)
		return
	}
	w.WriteHeader(http.StatusCreated)
	traffic.Reply(w, map[string]any{"kind": "user", "name": name, "servers": map[string]any{}})
}

func (h *hub) removeUser(w http.ResponseWriter, r *http.Request, _ string) {
	name := r.PathValue("user")
	h.mu.Lock()
	u := h.users[name]
	isRunning := u != nil && u.server != nil
	h.mu.Unlock()
	switch {
	case u == nil:
		hubError(w, http.StatusNotFound, "Not Found")
		return
	case isRunning:
		hubError(w, http.StatusBadRequest, "%s's server is running, please stop it first", name)
		return
	}
	if err := h.deleteHome(r.Context(), name); err != nil {
		hubError(w, http.StatusInternalServerError, "%v", err)
		return
	}
	h.mu.Lock()
	delete(h.users, name)
	maps.DeleteFunc(h.sessions, func(_ string, s *session) bool { return s.user == name })
	maps.DeleteFunc(h.userTokens, func(_, user string) bool { return user == name })
	h.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// slow is how long the hub lets a request wait for a server before it says that it will take
// longer: slow_spawn_timeout, 10 s in the real hub, where pulling an image takes minutes.
const slow = 300 * time.Millisecond

func (h *hub) startServer(w http.ResponseWriter, r *http.Request, _ string) {
	options := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&options)
	u := h.user(r.PathValue("user"))
	if u == nil {
		hubError(w, http.StatusNotFound, "Not Found")
		return
	}
	s, done, isNew := h.begin(u, options)
	if !isNew {
		h.mu.Lock()
		pending := s.pending
		h.mu.Unlock()
		hubError(w, http.StatusBadRequest, "%s's server is already running%s", u.name, map[string]string{"": "", "spawn": " (pending spawn)", "stop": " (pending stop)"}[pending])
		return
	}
	select {
	case <-done:
	case <-time.After(slow):
	}
	h.mu.Lock()
	isReady, isGone := s.ready, u.server != s
	var last string
	if len(s.events) > 0 {
		last = s.events[len(s.events)-1].Message
	}
	h.mu.Unlock()
	switch {
	case isReady:
		w.WriteHeader(http.StatusCreated)
	case isGone:
		hubError(w, http.StatusInternalServerError, "%s", last)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// begin starts a user's server, unless there is one. done is closed when it is ready or has failed.
func (h *hub) begin(u *hubUser, options map[string]any) (s *hubServer, done chan struct{}, isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u.server != nil {
		return u.server, nil, false
	}
	profile, _ := options["profile"].(string)
	s, done = &hubServer{profile: profile, options: options, pending: "spawn", news: make(chan struct{})}, make(chan struct{})
	u.server, u.failed = s, ""
	h.Go(func() { defer close(done); h.spawn(h.ctx, u, s) })
	return s, done, true
}

func (h *hub) stopServer(w http.ResponseWriter, r *http.Request, _ string) {
	switch u := h.user(r.PathValue("user")); h.end(u) {
	case "":
		hubError(w, http.StatusNotFound, "Not Found")
	case "spawn":
		hubError(w, http.StatusBadRequest, "%s is pending spawn", u.name)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// end stops a user's server, unless it is being started, and returns what is pending: "" if
// there is none.
func (h *hub) end(u *hubUser) (pending string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u == nil || u.server == nil {
		return ""
	}
	s := u.server
	if s.pending == "" {
		s.pending, s.ready = "stop", false
		h.Go(func() { h.stop(h.ctx, u, s) })
	}
	return s.pending
}

// progress sends the events of a starting server, as server-sent events.
func (h *hub) progress(w http.ResponseWriter, r *http.Request, _ string) {
	h.mu.Lock()
	var s *hubServer
	if u := h.users[r.PathValue("user")]; u != nil {
		s = u.server
	}
	h.mu.Unlock()
	if s == nil {
		hubError(w, http.StatusBadRequest, "%s is not starting...", r.PathValue("user"))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for told := 0; ; {
		h.mu.Lock()
		events, news := s.events[told:], s.news
		told = len(s.events)
		h.mu.Unlock()
		for _, e := range events {
			data, _ := json.Marshal(e)
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
			if e.Ready || e.Failed {
				return
			}
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-h.ctx.Done():
			return
		case <-news:
		}
	}
}

// toServer forwards to a user's server.
func (h *hub) toServer(w http.ResponseWriter, r *http.Request, _ string) {
	pod := h.running(r.PathValue("user"))
	if pod == "" {
		hubError(w, http.StatusServiceUnavailable, "Server not running at %s", r.URL.Path)
		return
	}
	(&notebook{hub: h, pod: pod}).ServeHTTP(w, r)
}

// running returns the pod of a user's server, or "" if it is not ready.
func (h *hub) running(user string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.users[user]; u != nil && u.server != nil && u.server.ready {
		return u.server.pod
	}
	return ""
}
