package jupyterhub

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// starting is a server that was requested.
type starting struct {
	profile string
	asked   bool
	unheard bool     // it may have been
	events  []string // the last ones
	noNode  context.CancelFunc
	wait    time.Duration // how long the scheduler may find no node
	giveUp  context.CancelCauseFunc
}

// keepEvents is how many events a failure shows.
const keepEvents = 8

// Reasons to stop waiting for a server that cannot be placed.
var (
	errNoNode = errors.New("no node takes it")
	errStays  = errors.New("its home stays on the node of its owner's first server, and this profile does not run there: use a storage class whose volumes every node reaches")
)

// staysWait is how long a server may wait because its home is on another node: briefly,
// because another server may still leave that node.
const staysWait = 20 * time.Second

// start requests a server and follows it until it is ready. It returns the hub's last
// messages.
func (v *verifier) start(ctx context.Context, profile string) ([]string, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	s := &starting{profile: profile, wait: v.o.Schedule, giveUp: giveUp}
	defer s.stopNoNode()
	rule := converge.WaitRule{What: "profile " + profile, Limit: v.o.Start, TimeoutText: "its server was not ready", Strict: true}
	err := converge.Until(ctx, rule, func(ctx context.Context) (string, error) {
		if !s.asked {
			if ready, err := v.ask(ctx, s); err != nil || ready {
				return "", err
			}
		}
		if ready, err := v.follow(ctx, s); err != nil || ready {
			return "", err
		}
		return v.recheck(ctx)
	})
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errNoNode) {
		err = fmt.Errorf("%w for %s", cause, s.wait)
	} else if err != nil && cause != nil {
		err = fmt.Errorf("its server is not ready: %w", cause)
	}
	if err != nil {
		return s.events, fmt.Errorf("%w%s", err, lastWords(s.events))
	}
	return s.events, nil
}

// ask requests a server. If an earlier answer was lost, the hub refuses a second request.
func (v *verifier) ask(ctx context.Context, s *starting) (ready bool, err error) {
	status, err := v.call(ctx, http.MethodPost, userPath+"/server", map[string]any{"profile": s.profile}, nil)
	switch {
	case converge.IsTransient(err):
		s.unheard = true
		return false, err
	case s.unheard && is(err, http.StatusBadRequest):
	case err != nil:
		return false, fmt.Errorf("the hub does not start it: %w", err)
	}
	s.asked = true
	return status == http.StatusCreated, nil
}

// recheck checks a server after its event stream has ended early, because something between
// the hub and us closed it.
func (v *verifier) recheck(ctx context.Context) (missing string, err error) {
	have, err := v.server(ctx)
	switch {
	case err != nil:
		return "", err
	case have == nil:
		return "", errors.New("its server is gone")
	case have.Ready:
		return "", nil
	}
	return cmp.Or(have.Pending, "not ready"), nil
}

// event is an event that the hub sends while a server starts.
type event struct {
	Message       string
	Ready, Failed bool
}

// follow reads the hub's server-sent events: "data:" and JSON, with empty lines
// between that keep the connection open.
func (v *verifier) follow(ctx context.Context, s *starting) (done bool, err error) {
	path := userPath + "/server/progress"
	res, err := v.send(ctx, http.MethodGet, path, nil, "text/event-stream")
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusNotFound {
		return false, nil // it no longer starts: check its state
	}
	if res.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		return false, &APIError{Method: http.MethodGet, Path: path, Status: res.StatusCode, Message: message(data, res)}
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		var e event
		if !ok || json.Unmarshal([]byte(data), &e) != nil {
			continue // ignore other lines
		}
		if e.Failed {
			return false, errors.New(cmp.Or(e.Message, "its server did not start"))
		}
		if e.Ready {
			return true, nil
		}
		s.hear(ctx, e.Message)
	}
	return false, context.Cause(ctx)
}

// hear reports an event, and measures how long the scheduler finds no node: it says "0/7 nodes
// are available: ", and why (kube-scheduler's FitError), which kubespawner passes on as an
// event of the pod.
func (s *starting) hear(ctx context.Context, message string) {
	if message == "" {
		return
	}
	converge.Progressf(ctx, "profile %s: %s", s.profile, message)
	s.events = append(s.events, message)
	s.events = s.events[max(0, len(s.events)-keepEvents):]
	if !strings.Contains(message, " nodes are available: ") {
		s.stopNoNode()
	} else if s.noNode == nil {
		limit, cause := s.wait, errNoNode
		if homeElsewhere(message) {
			limit, cause = min(limit, staysWait), errStays
		}
		var over context.Context
		over, s.noNode = converge.WithRunningTimeout(ctx, limit, cause)
		context.AfterFunc(over, func() {
			if errors.Is(context.Cause(over), cause) {
				s.giveUp(cause)
			}
		})
	}
}

// homeElsewhere reports whether a volume keeps the scheduler from a node: by its present
// message, and the one until Kubernetes 1.33 (ErrReasonNodeConflict of its plugin
// VolumeBinding).
func homeElsewhere(message string) bool {
	return strings.Contains(message, "didn't match PersistentVolume's node affinity") || strings.Contains(message, "volume node affinity conflict")
}

func (s *starting) stopNoNode() {
	if s.noNode != nil {
		s.noNode()
		s.noNode = nil
	}
}

// lastWords formats the hub's last messages, for errors.
func lastWords(events []string) string {
	if len(events) == 0 {
		return ""
	}
	return "; the hub's last messages: " + strings.Join(events, " | ")
}
