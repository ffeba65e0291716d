package pvesim

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// answer is what goes back over the wire. Proxmox puts the reason for an error
// into the status line, which net/http's ResponseWriter cannot: see Sim.Handler.
type answer struct {
	status int
	reason string
	body   []byte
	drop   bool
	plain  bool   // the body is not JSON, and nothing says what it is
	kind   string // what the body is where it is not JSON
}

func (s *state) answerFor(data any, err error) answer {
	if err == nil {
		body := map[string]any{"data": data}
		if l, ok := data.(listing); ok {
			body = map[string]any{"data": l.data}
			if l.total > 0 { // Perl leaves out what is false
				body["total"] = l.total
			}
		}
		if c, ok := data.(changed); ok {
			body = map[string]any{"data": c.data, "changes": c.diff}
		}
		if text, ok := data.(plainText); ok {
			return answer{status: http.StatusOK, reason: "OK", body: []byte(text), kind: "text/plain"}
		}
		if raw, ok := data.(json.RawMessage); ok { // rendered before: the fast path
			return answer{status: http.StatusOK, reason: "OK", body: raw}
		}
		return answer{status: http.StatusOK, reason: "OK", body: encode(body)}
	}
	if errors.Is(err, errDropped) {
		return answer{drop: true}
	}
	var e *apiError
	if !errors.As(err, &e) {
		e = fail(http.StatusInternalServerError, err.Error())
	}
	reason, _, _ := strings.Cut(e.text, "\n") // the rest is in the body alone
	a := answer{status: e.status, reason: strings.TrimSpace(reason)}
	if e.bare {
		return a
	}
	if e.plain {
		a.body, a.plain = []byte(e.text), true
		return a
	}
	body := map[string]any{"data": nil, "message": e.text + "\n"}
	if e.status == http.StatusNotImplemented || e.unended {
		body["message"] = e.text
	}
	if s.before(8, 4) { // pve-http-server 5.2.0
		delete(body, "message")
	}
	if e.params != nil {
		body["errors"] = e.params
	}
	a.body = encode(body)
	return a
}
