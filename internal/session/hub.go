package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/jupyterhub"
)

// HubProfiles prints where each profile fits, and how many at once. It works offline.
func HubProfiles(s *Session) error {
	report := platform.Fit(s.Spec)
	if len(report.Rows) == 0 {
		return exitErrorf(invalid, "%s has no hub", s.Spec.Name)
	}
	if s.JSON {
		return console.Objects(s.Console, report.Rows)
	}
	t := console.Table{Header: append(append([]string{"PROFILE"}, report.Pools...), "AT ONCE")}
	for _, row := range report.Rows {
		line := []string{row.Profile}
		for _, cell := range row.Cells {
			line = append(line, cell.String())
		}
		total := fmt.Sprint(row.Total)
		if row.Limit != "" {
			total += ", by " + row.Limit
		}
		t.Add(append(line, total)...)
	}
	s.Table(t)
	s.Printf("Each line is for an empty cluster: the number of servers of that profile that can run when nothing else does.")
	for _, a := range report.Apart {
		s.Printf("Homes stay on one node: %s.", a)
	}
	return nil
}

// hub finds the hub in the cluster.
func hubOf(s *Session, ctx context.Context) (jupyterhub.Hub, jupyterhub.Client, error) {
	h, ok := s.Cluster.Hub()
	if !ok {
		return h, jupyterhub.Client{}, exitErrorf(invalid, "%s has no hub: write hub: hub.lab.example and the other settings from docs/hub.md", s.Spec.Name)
	}
	k, err := s.Cluster.Kube(ctx)
	if err != nil {
		return h, jupyterhub.Client{}, err
	}
	c, err := h.FindClient(ctx, k, s.Cluster.Dial)
	if err == nil {
		s.AddSecrets(c.Token)
	}
	return h, c, err
}

// HubRecorder is a recorder that also keeps what servers of the hub's profiles did.
type HubRecorder interface {
	StoreResults([]jupyterhub.Result)
}

// HubVerify starts a server of each profile, computes in it and removes it.
func HubVerify(s *Session, ctx context.Context, f HubVerifyFlags) error {
	h, there := s.Cluster.Hub()
	checks := h.Checks()
	if f.Profile != "" && there {
		if checks = checksOfProfile(checks, f.Profile); checks == nil {
			var names []string
			for _, c := range h.Checks() {
				names = append(names, c.Profile)
			}
			return exitErrorf(invalid, "-profile=%s: the hub has no such profile; it has %s", f.Profile, strings.Join(names, ", "))
		}
	}
	h, client, err := hubOf(s, ctx)
	if err != nil {
		return err
	}
	ctx = converge.WithProgress(ctx, func(u converge.ProgressUpdate) {
		if !s.JSON {
			s.Printf("%s", u)
		}
	})
	results, runErr := jupyterhub.Verify(ctx, client, checks, jupyterhub.Options{})
	if r, ok := s.Recorder.(HubRecorder); ok {
		r.StoreResults(results)
	}
	if err := printHub(s, results); err != nil {
		return errors.Join(runErr, err)
	}
	if runErr != nil {
		return runErr
	}
	s.Printf("%d of %d profiles of %s start and compute.", len(results), len(checks), h.URL())
	return nil
}

func checksOfProfile(checks []jupyterhub.Check, profile string) []jupyterhub.Check {
	for _, c := range checks {
		if c.Profile == profile {
			return []jupyterhub.Check{c}
		}
	}
	return nil
}

func printHub(s *Session, results []jupyterhub.Result) error {
	type row struct {
		Profile string                 `json:"profile"`
		Passed  bool                   `json:"passed"`
		Lab     bool                   `json:"lab,omitempty"`   // its pod and GPUs are simulated
		Ready   string                 `json:"ready,omitempty"` // how long its server took
		Saw     jupyterhub.Observation `json:"saw"`
		Error   string                 `json:"error,omitempty"`
	}
	t := console.Table{Header: []string{"PROFILE", "READY AFTER", "GPUS", "RESULT"}}
	var rows []row
	for _, r := range results {
		one := row{Profile: r.Profile, Passed: r.Err == nil, Lab: s.Spec.IsLab(), Saw: r.Saw}
		after, verdict := "-", "passed"
		if r.Ready > 0 {
			one.Ready = r.Ready.Round(time.Second).String()
			after = one.Ready
		}
		if r.Err != nil {
			one.Error = r.Err.Error()
			verdict = "FAILED: " + strings.TrimPrefix(one.Error, "profile "+r.Profile+": ")
		}
		var gpus []string
		for _, g := range r.Saw.GPUs {
			gpus = append(gpus, g.Name)
		}
		rows = append(rows, one)
		t.Add(r.Profile, after, dash(gpus), verdict)
	}
	if s.JSON {
		return console.Objects(s.Console, rows)
	}
	if len(rows) > 0 {
		s.Table(t)
	}
	return nil
}

// HubOpen prints the hub's address. If a browser on this machine could not reach it, it
// forwards a local port until it is interrupted.
func HubOpen(s *Session, ctx context.Context, f HubOpenFlags) error {
	h, client, err := hubOf(s, ctx)
	if err != nil {
		return err
	}
	unknown := jupyterhub.UnresolvedText(ctx, net.DefaultResolver, h.URL())
	if f.Port == 0 && s.Cluster.Dial == nil && unknown == "" {
		fmt.Fprintln(s.Data, h.URL())
		browseHub(s, ctx, f.Browser, h.URL())
		return nil
	}
	handler, err := client.LocalProxy()
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", f.Port))
	if err != nil {
		return exitErrorf(invalid, "-port=%d: %w", f.Port, err)
	}
	if s.Spec.IsLab() {
		s.Printf("%s", labLogin(h))
	} else if unknown != "" {
		s.Printf("%s.", unknown)
	}
	s.Printf("%s is available here until you press Ctrl-C:", h.URL())
	local := "http://" + l.Addr().String()
	fmt.Fprintln(s.Data, local)
	browseHub(s, ctx, f.Browser, local)
	return Serve(ctx, l, handler)
}

// labLogin says how to log in to the lab's hub, which has no accounts of its own.
func labLogin(h jupyterhub.Hub) string {
	a := h.Auth
	if h.SignsIn {
		return "The lab's stand-in for JupyterHub sends people to " + a.OIDC.Issuer + ". A browser reaches both with the proxy of the kubeconfig (proxy-url), and with the ingress' address for their names in /etc/hosts."
	}
	name, password := "any name", "any password"
	if !a.AllowAll.IsOn() && (a.Kind == spec.AuthDummy || a.Kind == spec.AuthNative && len(a.Users) > 0) {
		name = "a name that hub.auth allows"
	}
	if a.Kind == spec.AuthDummy {
		password = "the hub's password, which homelab platform:passwords shows"
	}
	return "The lab's stand-in for JupyterHub: log in with " + name + " and " + password + "."
}

// browse opens an address that anyone may know: the hub asks for a login.
func browseHub(s *Session, ctx context.Context, asked bool, address string) {
	if asked {
		Browse(ctx, address, false, func(err error) { s.Printf("warning: %s", err) })
	}
}
