package pvesim

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// outcome is what goes back over the wire. Proxmox puts the reason for an error
// into the status line, which net/http's ResponseWriter cannot: see Sim.Handler.
type outcome struct {
	status int
	reason string
	body   []byte
	drop   bool
	plain  bool   // the body is not JSON, and nothing says what it is
	kind   string // what the body is where it is not JSON
}

func answerFor(s *world.State, data any, err error) outcome {
	if err == nil {
		body := map[string]any{"data": data}
		if l, ok := data.(answer.Listing); ok {
			body = map[string]any{"data": l.Data}
			if l.Total > 0 { // Perl leaves out what is false
				body["total"] = l.Total
			}
		}
		if c, ok := data.(answer.DataWithDiff); ok {
			body = map[string]any{"data": c.Data, "changes": c.Diff}
		}
		if text, ok := data.(answer.PlainText); ok {
			return outcome{status: http.StatusOK, reason: "OK", body: []byte(text), kind: "text/plain"}
		}
		if raw, ok := data.(json.RawMessage); ok { // rendered before: the fast path
			return outcome{status: http.StatusOK, reason: "OK", body: raw}
		}
		return outcome{status: http.StatusOK, reason: "OK", body: answer.Encode(body)}
	}
	if errors.Is(err, answer.ErrDropped) {
		return outcome{drop: true}
	}
	var e *answer.Error
	if !errors.As(err, &e) {
		e = answer.Fail(http.StatusInternalServerError, err.Error())
	}
	reason, _, _ := strings.Cut(e.Text, "\n") // the rest is in the body alone
	a := outcome{status: e.Status, reason: strings.TrimSpace(reason)}
	if e.Bare {
		return a
	}
	if e.Plain {
		a.body, a.plain = []byte(e.Text), true
		return a
	}
	body := map[string]any{"data": nil, "message": e.Text + "\n"}
	if e.Status == http.StatusNotImplemented || e.Unended {
		body["message"] = e.Text
	}
	if release.Before(s, 8, 4) { // pve-http-server 5.2.0
		delete(body, "message")
	}
	if e.Params != nil {
		body["errors"] = e.Params
	}
	a.body = answer.Encode(body)
	return a
}
