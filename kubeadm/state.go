package kubeadm

import (
	"bytes"
	"context"
	_ "embed" // the script below
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed observe.sh
var observeScript string

// Role is what a machine is in its cluster.
type Role string

// The roles; "": it is not a member, and was not asked to become one.
const (
	Server Role = "server"
	Agent  Role = "agent"
)

// State is Kubernetes on a machine.
type State struct {
	Arch      string // amd64 or arm64
	Version   string // of its kubelet, the one that runs; "": kubelet, kubeadm or a runtime is not installed
	Runtime   Runtime
	Held      bool // no upgrade of the machine's packages changes Kubernetes
	Role      Role
	Starting  bool     // its start was cut short, or goes on
	Joined    bool     // it is a member: it has a login of its own
	Active    string   // systemd's word for kubelet, e.g. activating
	Journal   []string // the last lines of a kubelet that does not run
	API       string   // the URL where an agent's kubelet looks for the API, or where a server has joined; "": it has created its cluster, or is not in one
	Cluster   string   // whose mark it has; "": none
	Authority string   // SHA-256 of the file of its cluster's authority; "": it has none
	Restoring string   // what a restore that goes on, or was cut short, began with

	node    registration
	cluster *clusterConfiguration // that a server was created with, or has joined with
	kubeVIP string                // the static pod of a server
}

// Running reports whether it is a member whose kubelet runs.
func (s State) Running() bool { return s.Joined && !s.Starting && s.Active == "active" }

// ProviderID is the one that its kubelet registers with.
func (s State) ProviderID() string {
	for _, a := range s.node.Args {
		if a.Name == "provider-id" {
			return a.Value
		}
	}
	return ""
}

// Labels are those that its kubelet registers with.
func (s State) Labels() map[string]string {
	out := map[string]string{}
	for _, a := range s.node.Args {
		if a.Name != "node-labels" {
			continue
		}
		for label := range strings.SplitSeq(a.Value, ",") {
			key, value, _ := strings.Cut(label, "=")
			out[key] = value
		}
	}
	return out
}

// Observe reads the state of Kubernetes on a machine, in one round trip, and changes nothing.
func Observe(ctx context.Context, r remote.Runner) (State, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", observeScript, "observe.sh")
	if err != nil {
		return State{}, fmt.Errorf("look at Kubernetes: %w", err)
	}
	return parse(out)
}

var versionLine = regexp.MustCompile(`^Kubernetes (v\S+)$`)

func parse(out []byte) (State, error) {
	text := map[string]string{}
	for _, part := range bytes.Split(out, []byte("\n@@ "))[1:] {
		name, rest, _ := bytes.Cut(part, []byte("\n"))
		text[string(name)] = strings.TrimSpace(string(rest))
	}
	if _, whole := text["end"]; !whole {
		return State{}, fmt.Errorf("look at Kubernetes: the output was truncated after %d bytes", len(out))
	}
	s := State{
		Arch:     map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[text["arch"]],
		Starting: text["starting"] != "", Joined: text["joined"] != "", kubeVIP: text["kube-vip"], Active: text["active"], Cluster: text["cluster"],
		Restoring: text["restoring"], Runtime: Runtime(text["runtime"]),
	}
	if m := versionLine.FindStringSubmatch(text["version"]); m != nil {
		s.Version = m[1]
	}
	if was := text["upgrading"]; IsVersion(was) {
		s.Version = was
	}
	s.Held = !slices.ContainsFunc(s.Runtime.heldPackages(), func(p string) bool { return !slices.Contains(strings.Fields(text["held"]), p) })
	s.Authority, _, _ = strings.Cut(text["authority"], " ")
	switch {
	case text["server"] != "" || text["starting"] == string(Server):
		s.Role = Server
	case s.Joined || s.Starting:
		s.Role, s.API = Agent, text["joined"]
	}
	for line := range strings.Lines(text["journal"]) {
		s.Journal = append(s.Journal, strings.TrimSpace(line))
	}
	// Files that cannot be read count as a difference.
	_ = yaml.Unmarshal([]byte(text["node"]), &s.node)
	s.readAgreed(text["agreed"])
	return s, nil
}

// readAgreed reads what a server was created with, or has joined with, which is the second half of it alone.
func (s *State) readAgreed(text string) {
	first, doc, created := strings.Cut(text, "\n---\n")
	if !created {
		doc = first
	}
	var c clusterConfiguration
	if yaml.Unmarshal([]byte(doc), &c) != nil || c.Kind == "" {
		return
	}
	s.cluster = &c
	if s.Role == Server && !created { // its kubelet looks at its own machine (cmd/phases/join/kubelet.go)
		s.API = "https://" + c.Endpoint
	}
}

// Diff says what keeps a machine from being this member. What a kubelet says when it registers, labels and taints, is
// the Node's afterwards, and is not compared.
func (s State) Diff(c Cluster, n Node, role Role) converge.Diff {
	d := converge.Compare("version", s.Version, c.Version, converge.Restart)
	if !s.Held && s.Version == c.Version {
		d = append(d, converge.Field{Path: "packages", Have: "not held", Want: "held", Effect: converge.Update})
	}
	switch {
	case s.Starting:
		d = append(d, converge.Field{Path: "member", Have: "its start was cut short", Want: string(role), Effect: converge.Create})
	case !s.Joined:
		d = append(d, converge.Field{Path: "member", Want: string(role), Effect: converge.Create})
	case s.Active != "active":
		d = append(d, converge.Field{Path: "kubelet", Have: s.Active, Want: "active", Effect: converge.Create})
	}
	if role != Server || s.Starting || !s.Joined {
		return d
	}
	switch want, err := c.kubeVIP(n); {
	case err != nil:
		d = append(d, converge.Field{Path: "kube-vip", Want: err.Error(), Effect: converge.Update})
	case want != nil && s.kubeVIP != string(bytes.TrimSpace(want)):
		d = append(d, converge.Field{Path: "kube-vip", Have: "another one", Want: c.Endpoint.Addr().String(), Effect: converge.Update})
	}
	return d
}

// CheckSettings says what of a running server differs from the wanted cluster, and which kubeadm does not change. The
// version is no such thing.
func (s State) CheckSettings(c Cluster) error {
	if s.cluster == nil {
		return nil
	}
	have, want := *s.cluster, c.configuration()
	have.Version = want.Version
	for _, f := range []struct {
		name       string
		have, want any
	}{
		{"the network of pods", have.Networking.Pods, want.Networking.Pods},
		{"the network of services", have.Networking.Services, want.Networking.Services},
		{"the DNS domain of services", have.Networking.Domain, want.Networking.Domain},
		{"the address of the API", have.Endpoint, want.Endpoint},
		{"the list of names in the API's certificate", have.APIServer.SANs, want.APIServer.SANs},
		{"whether there is no kube-proxy", have.Proxy.Disabled, want.Proxy.Disabled},
	} {
		if !reflect.DeepEqual(f.have, f.want) {
			return fmt.Errorf("%s is %v, and should be %v", f.name, f.have, f.want)
		}
	}
	return nil
}
