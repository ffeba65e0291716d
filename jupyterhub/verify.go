package jupyterhub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// verifyService is the hub's service, with a token of its own, that verifies it.
const verifyService = "homelab-verify"

// verifyUser is the user whose servers it starts. Nobody can log in under this name. It
// differs from the service's name, because the hub would treat both as the same and not let
// the service remove the user.
const verifyUser = "homelab-verifier"

// verifyScopes are what the service may do: create and remove one user, start, stop and use
// its servers, and nothing with others (JupyterHub's scopes, each filtered).
func verifyScopes() []string {
	me := "!user=" + verifyUser
	return []string{"admin:users" + me, "servers" + me, "access:servers" + me}
}

// Check is a profile to verify, and what its server must have.
type Check struct {
	Profile   string
	GPUs      int   // number of GPUs that it sees, and that compute
	GPUMemory Bytes // limit that it cannot exceed; 0: all
	AnyGPU    bool  // some GPU or part of one, e.g. with MIG; the number is not known
	SSH       bool  // SSH into it answers
}

// Checks are those of all profiles.
func (h Hub) Checks() []Check {
	all := make([]Check, 0, len(h.Profiles))
	for _, p := range h.Profiles {
		name := p.Name
		p = spec.Variants(p)[0] // of who chooses none
		all = append(all, Check{Profile: name, GPUs: p.GPUs, GPUMemory: Bytes(p.GPUMemory), AnyGPU: p.GPUs == 0 && usesGPU(p), SSH: h.SSH})
	}
	return all
}

// Options has the time limits of [Verify].
type Options struct {
	// Schedule is how long the scheduler may find no node; default 3 min. Waiting longer would
	// not tell more.
	Schedule time.Duration

	Start time.Duration // until a server is ready; default 25 min, a little more than the hub's own limit
	Run   time.Duration // until the code in it has ended; default 3 min
	Stop  time.Duration // until a server is gone, or a hub that does not answer comes back; default 3 min
}

// Result is the result of one profile.
type Result struct {
	Profile string
	Ready   time.Duration // from the request until it was ready; 0: never
	Saw     Observation
	Events  []string // the hub's last messages
	Err     error
}

// Verify starts a server of each profile, one after the other, runs code in it and removes it.
// It does so as verifyUser, which it creates and removes. It first removes what a killed run
// left. After a failure it continues with the next profile; the error joins all failures.
func Verify(ctx context.Context, c Client, checks []Check, o Options) ([]Result, error) {
	hub, err := c.open()
	if err != nil {
		return nil, err
	}
	defer hub.close()
	v := &verifier{conn: hub, o: Options{
		Schedule: cmp.Or(o.Schedule, 3*time.Minute), Start: cmp.Or(o.Start, startTimeout+5*time.Minute), Run: cmp.Or(o.Run, 3*time.Minute), Stop: cmp.Or(o.Stop, 3*time.Minute),
	}}
	hear := converge.WaitRule{What: "waiting for the hub", Limit: v.o.Stop, TimeoutText: "the hub did not answer", Strict: true}
	if err := converge.Until(ctx, hear, func(ctx context.Context) (string, error) { return "", v.begin(ctx) }); err != nil {
		return nil, err
	}
	var results []Result
	var failed []error
	for _, check := range checks {
		if ctx.Err() != nil {
			break
		}
		r := v.profile(ctx, check)
		if r.Err != nil {
			r.Err = fmt.Errorf("profile %s: %w", check.Profile, r.Err)
			failed = append(failed, r.Err)
		}
		results = append(results, r)
	}
	failed = append(failed, context.Cause(ctx), v.end(ctx))
	return results, errors.Join(failed...)
}

type verifier struct {
	*conn
	o Options
}

const userPath = "/hub/api/users/" + verifyUser

// begin recreates the user.
func (v *verifier) begin(ctx context.Context) error {
	var hub struct{ Version string }
	if _, err := v.call(ctx, http.MethodGet, "/hub/api/", nil, &hub); err != nil {
		return fmt.Errorf("%s: %w", v.base, err)
	}
	if hub.Version == "" {
		return fmt.Errorf("%s answers, but it is not JupyterHub", v.base)
	}
	converge.Progressf(ctx, "JupyterHub %s answers", hub.Version)
	if err := v.loginPage(ctx); err != nil {
		return fmt.Errorf("nobody can log in: %w", err)
	}
	var me struct{ Kind, Name string }
	if _, err := v.call(ctx, http.MethodGet, "/hub/api/user", nil, &me); err != nil {
		if is(err, http.StatusForbidden) || is(err, http.StatusUnauthorized) {
			return fmt.Errorf("the hub does not know the token of its service %s; either it has not restarted since the Secret %s changed, or something in hub.extraConfig sets c.JupyterHub.services instead of adding to it: %w",
				verifyService, secretName, err)
		}
		return err
	}
	if me.Kind != "service" || me.Name != verifyService {
		return fmt.Errorf("the token is of the %s %s: want that of the service %s", me.Kind, me.Name, verifyService)
	}
	if err := v.remove(ctx); err != nil {
		return fmt.Errorf("cleaning up after an earlier run: %w", err)
	}
	if _, err := v.call(ctx, http.MethodPost, userPath, nil, nil); err != nil && !is(err, http.StatusConflict) {
		return fmt.Errorf("user %s: %w", verifyUser, err)
	}
	return nil
}

// loginPage requests the login page anonymously: it shows a form, or redirects.
func (v *verifier) loginPage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	const path = "/hub/login"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base.String()+path, nil)
	if err != nil {
		return err
	}
	res, err := v.http.Do(req)
	if err != nil {
		return markTransient(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 {
		return &APIError{Method: http.MethodGet, Path: path, Status: res.StatusCode, Message: "the hub's log says why"}
	}
	return nil
}

// end removes the user, even if the context has ended.
func (v *verifier) end(ctx context.Context) error {
	if err := v.remove(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("removing user %s: %w", verifyUser, err)
	}
	return nil
}

// profile starts a server, runs code in it, and stops it.
func (v *verifier) profile(ctx context.Context, check Check) (r Result) {
	r.Profile = check.Profile
	defer func() {
		if err := v.stop(context.WithoutCancel(ctx)); err != nil {
			r.Err = errors.Join(r.Err, fmt.Errorf("stopping its server: %w", err))
		}
	}()
	begun := time.Now()
	if r.Events, r.Err = v.start(ctx, check.Profile); r.Err != nil {
		return r
	}
	r.Ready = time.Since(begun)
	converge.Progressf(ctx, "profile %s: its server is ready after %s", check.Profile, r.Ready.Round(time.Second))
	if r.Saw, r.Err = v.look(ctx, check); r.Err == nil {
		r.Err = r.Saw.compare(check)
	}
	if r.Err == nil && check.SSH {
		r.Saw.SSH, r.Err = v.ssh(ctx)
	}
	if r.Err == nil {
		converge.Progressf(ctx, "profile %s: %s", check.Profile, r.Saw)
	}
	return r
}

// server is the user's server as the hub sees it.
type server struct {
	Ready   bool
	Pending string // spawn or stop; empty: neither
	URL     string
}

// server returns the user's server; nil when there is none.
func (v *verifier) server(ctx context.Context) (*server, error) {
	var user struct{ Servers map[string]*server }
	if _, err := v.call(ctx, http.MethodGet, userPath, nil, &user); err != nil {
		if is(err, http.StatusNotFound) {
			return nil, nil
		}
		return nil, err
	}
	s := user.Servers[""]
	if s == nil || !s.Ready && s.Pending == "" {
		return nil, nil
	}
	return s, nil
}

// stop stops the server, and waits until it is gone. A missing server is not an error.
func (v *verifier) stop(ctx context.Context) error {
	asked := false
	rule := converge.WaitRule{Limit: v.o.Stop, TimeoutText: "it did not stop", Strict: true, Poll: time.Second,
		What: "waiting for its server to stop"}
	return converge.Until(ctx, rule, func(ctx context.Context) (string, error) {
		s, err := v.server(ctx)
		if err != nil || s == nil {
			return "", err
		}
		if !asked || s.Pending == "" {
			_, err := v.call(ctx, http.MethodDelete, userPath+"/server", nil, nil)
			// 400: its present state does not allow stopping yet.
			if err != nil && !is(err, http.StatusNotFound) && !is(err, http.StatusBadRequest) {
				return "", err
			}
			asked = err == nil
		}
		return "it is still there (" + cmp.Or(s.Pending, "ready") + ")", nil
	})
}

// remove removes the user with everything that belongs to it. A missing user is not an error.
func (v *verifier) remove(ctx context.Context) error {
	if err := v.stop(ctx); err != nil {
		return err
	}
	rule := converge.WaitRule{Limit: v.o.Stop, TimeoutText: "the hub did not remove it", Strict: true, What: "removing user " + verifyUser}
	return converge.Until(ctx, rule, func(ctx context.Context) (string, error) {
		_, err := v.call(ctx, http.MethodDelete, userPath, nil, nil)
		if is(err, http.StatusNotFound) {
			err = nil
		}
		return "", err
	})
}
