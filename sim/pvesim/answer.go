package pvesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// apiError is a refusal with the status line that Proxmox gives.
type apiError struct {
	status  int
	text    string
	params  map[string]string // parameter -> what is wrong with it
	bare    bool              // no body
	plain   bool              // a body of the text alone
	unended bool              // an exception's text, without the line feed of Perl's die
}

// Error is the text, with the status where Perl's exceptions carry it: that is how
// a refusal reads in a task (PVE/Exception.pm, stringify).
func (e *apiError) Error() string {
	if e.status == http.StatusForbidden {
		return "403 " + e.text
	}
	if e.params != nil {
		text := fmt.Sprintf("%d %s\n", e.status, e.text)
		for _, k := range sortedKeys(e.params) {
			text += k + ": " + e.params[k] + "\n"
		}
		return strings.TrimSuffix(text, "\n")
	}
	return e.text
}

func (e *apiError) with(param, text string) *apiError {
	if e.params == nil {
		e.params = map[string]string{}
	}
	e.params[param] = text
	return e
}

// unread refuses a request before anything has looked at what it asks for
// (PVE/APIServer/AnyEvent.pm, error).
func unread(status int, text string) *apiError {
	return &apiError{status: status, text: text, plain: true}
}

func fail(status int, text string) *apiError { return &apiError{status: status, text: text} }

// die is Perl's: an error that ends as 500, or as the exit status of a task.
func die(format string, args ...any) error {
	return fail(http.StatusInternalServerError, fmt.Sprintf(format, args...))
}

func badParam(name, text string) error {
	return fail(http.StatusBadRequest, "Parameter verification failed.").with(name, text)
}

// errProxyTimeout is what pveproxy says when pvedaemon has not answered in time.
var errProxyTimeout = &apiError{status: 596, text: "Connection timed out", bare: true}

// errDropped ends a connection without an answer.
var errDropped = errors.New("pvesim: connection dropped")

// answer is what goes back over the wire. Proxmox puts the reason for an error
// into the status line, which net/http's ResponseWriter cannot: see Sim.Handler.
type answer struct {
	status int
	reason string
	body   []byte
	drop   bool
	plain  bool   // the body is no JSON, and nothing says what it is
	kind   string // what the body is where it is no JSON
}

// plainText is a file that is downloaded.
type plainText string

// listing is data with keys of its own beside it ("total").
type listing struct {
	data  any
	total int
}

func (s *Sim) answerFor(data any, err error) answer {
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

func encode(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{"data":null}`)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
