package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// replay is a simulated host on which the recorded exchanges are repeated.
type replay struct {
	sim       *pvesim.Sim
	began     time.Time
	names     map[string]string // theirs -> ours: UPIDs, digests, secrets of tokens
	tickets   map[string]session
	passwords map[string]string
	older     bool   // the recording that is one long session
	release   func() // of a lock that was held when the record was made
	last      exchange
}

type session struct{ ticket, csrf string }

// Replay repeats a scenario's requests to real daemons on a fresh simulated host, at the
// recorded times: call it within testing/synctest.
//
// The times of pvestatd's rounds were not recorded. A scenario that depends on them is
// repeated with other times, and the best result counts.
func (r *Replays) Replay(ctx context.Context, s Scenario) error {
	var best []exchange
	fewest := len(s.had) + 1
	for _, phase := range s.phases() {
		got, err := s.replay(ctx, phase)
		if err != nil {
			return err
		}
		differ := 0
		for n, e := range s.had {
			if what, _ := r.x.compare(e, got[n]); what != nil {
				differ++
			}
		}
		if differ < fewest {
			best, fewest = got, differ
		}
	}
	for n, e := range s.had {
		r.note(s, n, e, best[n])
	}
	return nil
}

// phases are the moments of pvestatd's round at which a scenario may have begun.
func (s Scenario) phases() []time.Duration {
	looks := func(e exchange) bool {
		return e.Method == http.MethodGet && e.Scenario != "" && (strings.HasPrefix(e.Path, "/cluster/resources") || strings.HasPrefix(e.Path, "/pools"))
	}
	if !slices.ContainsFunc(s.had, looks) {
		return []time.Duration{0}
	}
	var out []time.Duration
	for phase := range 10 {
		out = append(out, time.Duration(phase)*time.Second)
	}
	return out
}

// replay repeats a scenario, some time after the host has started.
func (s Scenario) replay(ctx context.Context, phase time.Duration) (got []exchange, err error) {
	options := pvesim.Options{Internet: recordedInternet, Timing: recordedTiming()}
	if s.Name == "" { // when something was asked was not recorded, so lists are never behind here
		options.StatusLag = -1
	}
	h := &replay{sim: pvesim.New(recordedHost(s.Name != "", s.domain, s.memory), options), began: time.Now(),
		names: map[string]string{recordedSum: sha256Of(tinyImage())}, tickets: map[string]session{}, older: s.Name == "", release: func() {},
		passwords: map[string]string{"root@pam": "password-of-root", "nobody@pve": "password-of-nobody", "k3s@pve": "x"}}
	defer h.sim.Close()
	if err := h.waitUntil(ctx, phase.Seconds()); err != nil {
		return nil, err
	}
	h.began = time.Now()
	for n, e := range s.had {
		one, err := h.repeat(ctx, n, e)
		if err != nil {
			return nil, fmt.Errorf("%s #%d %s: %w", s, n, e, err)
		}
		got = append(got, one)
	}
	return got, nil
}

var encodedUPID = regexp.MustCompile(`UPID(%3A|:)[^/?]*`)

// repeat repeats one exchange.
func (r *replay) repeat(ctx context.Context, n int, e exchange) (exchange, error) {
	if err := r.waitUntil(ctx, e.At); err != nil {
		return exchange{}, err
	}
	// The recorder waited for what it had begun, but where times were set, for
	// consoles, and for the older one's salvo of clones.
	salvo := r.older && strings.HasSuffix(e.Path, "/clone") && strings.HasSuffix(r.last.Path, "/clone") || strings.HasSuffix(r.last.Path, "proxy")
	if !salvo && !e.Timed {
		r.sim.Settle()
	}
	if r.older {
		if err := r.catchUp(ctx, n); err != nil {
			return exchange{}, err
		}
	}
	r.last = e
	req, err := r.request(ctx, e)
	if err != nil {
		return exchange{}, err
	}
	got, err := r.send(req)
	if err != nil {
		return exchange{}, err
	}
	r.learn(parseJSON(e.Body), parseJSON(got.Body))
	r.remember(e, got)
	return got, nil
}

// waitUntil waits for a moment of the scenario.
func (r *replay) waitUntil(ctx context.Context, at float64) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Duration(at*float64(time.Second)) - time.Since(r.began)):
		return nil
	}
}

func parseJSON(body string) (v any) {
	if json.Unmarshal([]byte(body), &v) != nil {
		return nil
	}
	return v
}

// named are values that a host generates and that are sent back to it.
var named = regexp.MustCompile(`^(UPID:.*|[0-9a-f]{40}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

// learn records what has another name here.
func (r *replay) learn(theirs, ours any) {
	switch theirs := theirs.(type) {
	case string:
		if here, ok := ours.(string); ok && theirs != here && named.MatchString(theirs) && named.MatchString(here) {
			r.names[theirs] = here
		}
	case map[string]any:
		if here, ok := ours.(map[string]any); ok {
			for k := range theirs {
				r.learn(theirs[k], here[k])
			}
		}
	}
}

// ours is a text with the names that things have here.
func (r *replay) ours(s string) string {
	for theirs, ours := range r.names {
		s = strings.ReplaceAll(s, theirs, ours)
		if escaped := escapedName(theirs); escaped != theirs {
			s = strings.ReplaceAll(s, escaped, escapedName(ours))
		}
	}
	return s
}

func escapedName(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// remember stores the ticket of a login, and passwords that were set.
func (r *replay) remember(e, got exchange) {
	var login struct {
		Data struct{ Username, Ticket, CSRFPreventionToken string }
	}
	if json.Unmarshal([]byte(got.Body), &login) == nil && login.Data.Ticket != "" && login.Data.CSRFPreventionToken != "" {
		r.tickets[login.Data.Username] = session{login.Data.Ticket, login.Data.CSRFPreventionToken}
	}
	user, _ := e.Params["userid"].(string)
	password, _ := e.Params["password"].(string)
	if e.Method != http.MethodGet && user != "" && password != "" && got.Status == http.StatusOK {
		r.passwords[user] = password
	}
}

func (r *replay) send(req *http.Request) (exchange, error) {
	res, err := r.sim.Client().Do(req)
	if err != nil {
		return exchange{}, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	_, reason, _ := strings.Cut(res.Status, " ")
	return exchange{Method: req.Method, Path: req.URL.Path, Status: res.StatusCode, Reason: reason, Type: res.Header.Get("Content-Type"), Body: string(raw)}, err
}
