package k3s

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // the units below
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// The units are separate files, so that they can be read and compared as units.
var (
	//go:embed k3s.service
	serverUnit string
	//go:embed k3s-agent.service
	agentUnit string
)

// plan is a spec in the form that Diff and the starting functions use.
type plan struct {
	role      Role
	version   string
	keys      map[string]any
	config    []byte // config.yaml
	manifests map[string][]byte
	summary   string

	embedded   bool              // the embedded registry mirror, of which an agent's config.yaml says nothing
	registries secret.Value      // registries.yaml; zero for none
	files      map[string][]byte // that registries.yaml refers to
	named      map[string][]byte // that config.yaml names
	s3         secret.Value      // the file with the bucket's keys; of servers only
}

func (s Server) plan() (plan, error) {
	keys, err := s.keys()
	if err != nil {
		return plan{}, err
	}
	p := plan{role: RoleServer, version: s.Version, keys: keys, manifests: s.Manifests, named: s.Files,
		summary: fmt.Sprintf("k3s %s, first server of the cluster", s.Version)}
	if s.URL != "" {
		p.summary = fmt.Sprintf("k3s %s, server of %s", s.Version, s.URL)
	}
	text, err := s.S3.text()
	if err != nil {
		return plan{}, err
	}
	p.s3 = secret.New(text)
	return p.withNode(s.Node)
}

func (a Agent) plan() (plan, error) {
	keys, err := a.keys()
	if err != nil {
		return plan{}, err
	}
	p := plan{role: RoleAgent, version: a.Version, keys: keys,
		summary: fmt.Sprintf("k3s %s, agent of %s", a.Version, a.URL)}
	return p.withNode(a.Node)
}

// withNode adds the settings that servers and agents share.
func (p plan) withNode(n Node) (plan, error) {
	var err error
	if p.config, err = render(p.keys); err != nil {
		return p, err
	}
	p.embedded = n.EmbeddedRegistry
	p.registries, p.files, err = n.registries()
	return p, err
}

func (p plan) unit() string {
	if p.role == RoleAgent {
		return agentUnit
	}
	return serverUnit
}

// digest identifies what a start applies. It is written on the machine after the start was
// requested, so a difference means that K3s still runs with the earlier settings.
func (p plan) digest() string {
	h := sha256.New()
	for _, key := range sortedKeys(p.keys) {
		if !slices.Contains(registrationKeys, key) {
			fmt.Fprintf(h, "%q=%q;", key, show(p.keys, key))
		}
	}
	fmt.Fprintf(h, "%q%q", p.version, p.unit())
	if !p.registries.IsZero() {
		fmt.Fprint(h, p.registriesSum())
	}
	if p.embedded {
		fmt.Fprint(h, "embedded registry")
	}
	if p.wantsS3() {
		fmt.Fprint(h, p.s3Sum())
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// registrationKeys are the keys that apply when a node registers. On a registered node, labels
// and taints are changed through the API, and a restart does not change taints. K3s sets the
// labels again at every start (configureNode, pkg/agent/run.go), so the file is updated
// without a restart; otherwise a later start would restore old labels.
var registrationKeys = []string{"node-label", "node-taint"}

// keyEffect says what a changed key needs to take effect.
func keyEffect(key string) converge.Effect {
	if slices.Contains(registrationKeys, key) {
		return converge.Update
	}
	return converge.Restart
}

// Diff says how the machine differs from s. An invalid s differs in everything:
// [Server.Check] says why.
func (s Server) Diff(have State) converge.Diff {
	p, err := s.plan()
	if err != nil {
		return invalid(err)
	}
	return p.diff(have)
}

// CheckAddress returns an error if a server that is a member of etcd would get another address: K3s
// looks for its old one among the members and never gets ready.
func (s Server) CheckAddress(have State) error {
	was, _, _ := strings.Cut(show(have.Config, "node-ip"), ",") // a second address is kubelet's alone
	is, _, _ := strings.Cut(plain(texts(s.IPs)), ",")
	if have.Role != RoleServer || have.Config == nil || was == is {
		return nil
	}
	return fmt.Errorf("etcd knows the server by its address %s, and the file now gives it %s", cmp.Or(was, "of the default route"), cmp.Or(is, "none"))
}

// CheckRanges returns an error if a server that has a cluster would get other addresses for pods or
// services: nodes and services keep those they have, and the controllers of Kubernetes end when these
// are outside of the range.
func (s Server) CheckRanges(have State) error {
	if have.Role != RoleServer || have.Config == nil {
		return nil
	}
	var errs []error
	for _, r := range []struct{ key, of, want, byDefault string }{
		{"cluster-cidr", "pods", plain(texts(s.ClusterCIDR)), "10.42.0.0/16"},
		{"service-cidr", "services", plain(texts(s.ServiceCIDR)), "10.43.0.0/16"},
	} {
		was, is := cmp.Or(show(have.Config, r.key), r.byDefault), cmp.Or(r.want, r.byDefault)
		switch {
		case was == is:
		case strings.Count(was, ",") != strings.Count(is, ","):
			errs = append(errs, fmt.Errorf("the cluster's %s have addresses of %s, and the file now gives them %s: a cluster has one family or both from its beginning", r.of, was, is))
		default:
			errs = append(errs, fmt.Errorf("the cluster's %s have addresses of %s, and the file now gives them %s", r.of, was, is))
		}
	}
	return errors.Join(errs...)
}

// Diff says how the machine differs from a. An invalid a differs in everything:
// [Agent.Check] says why.
func (a Agent) Diff(have State) converge.Diff {
	p, err := a.plan()
	if err != nil {
		return invalid(err)
	}
	return p.diff(have)
}

func invalid(err error) converge.Diff {
	return converge.Diff{{Path: "spec", Want: err.Error(), Effect: converge.Create, Note: "not valid"}}
}

func (p plan) diff(have State) converge.Diff {
	if have.Role == RoleNone && have.Config == nil {
		d := converge.Missing(p.summary)
		if have.Version != "" && have.Version != p.version {
			d = append(d, p.versionDiff(have)...)
		}
		return d
	}
	var d converge.Diff
	if have.Role != RoleNone && have.Role != p.role {
		d = append(d, converge.Field{Path: "role", Have: string(have.Role), Want: string(p.role), Effect: converge.Replace,
			Note: "drain it, delete its Node, remove K3s, and let it join again"})
	}
	d = append(d, p.versionDiff(have)...)
	d = append(d, diffKeys(have.Config, p.keys)...)
	if have.Role == p.role && have.Unit != "" && strings.TrimSpace(have.Unit) != strings.TrimSpace(p.unit()) {
		d = append(d, converge.Field{Path: "unit", Have: "another text", Want: p.role.Unit() + ".service of this version", Effect: converge.Restart})
	}
	if _, joins := p.keys["token-file"]; joins && have.TokenMode != "600" {
		d = append(d, converge.Field{Path: "token-file", Have: mode(have.TokenMode), Want: mode("600"), Effect: converge.Restart})
	}
	d = append(d, diffManifests(have.Manifests, p.manifests)...)
	d = append(d, p.registriesDiff(have)...)
	d = append(d, p.s3Diff(have)...)
	if d.Effect() < converge.Restart && have.Running() && have.Applied != p.digest() {
		d = append(d, converge.Field{Path: "running", Have: "as before the last change", Want: "as configured", Effect: converge.Restart})
	}
	return append(d, p.activeDiff(have)...)
}

func (p plan) versionDiff(have State) converge.Diff {
	if have.Version == "" {
		return converge.Diff{{Path: "version", Want: p.version, Effect: converge.Create}}
	}
	d := converge.Compare("version", have.Version, p.version, converge.Restart)
	if err := CheckUpgrade(have.Version, p.version); err != nil { // so they differ
		d[0].Note = err.Error()
	}
	return d
}

// activeDiff says whether the unit runs. The note has the reason.
func (p plan) activeDiff(have State) converge.Diff {
	var d converge.Diff
	if !have.Running() {
		d = append(d, converge.Field{Path: "state", Have: have.Active, Want: "active", Effect: converge.Create, Note: have.Reason()})
	}
	if have.Role == p.role && !have.Enabled {
		d = append(d, converge.Field{Path: "enabled", Have: "no", Want: "yes", Effect: converge.Update, Note: "it would not start at boot"})
	}
	return d
}

// diffKeys compares the contents of config.yaml, not its form: order and quotes do not count.
func diffKeys(have, want map[string]any) converge.Diff {
	if have == nil {
		return converge.Diff{{Path: "config", Want: configFile, Effect: converge.Restart}}
	}
	var d converge.Diff
	for _, key := range sortedKeys(want) {
		h, w := show(have, key), show(want, key)
		if slices.Contains(registrationKeys, key) {
			h, w = subtractList(h, w), subtractList(w, h)
		}
		d = append(d, converge.Compare("config/"+key, h, w, keyEffect(key))...)
	}
	for _, key := range sortedKeys(have) {
		if _, asked := want[key]; !asked {
			d = append(d, converge.Field{Path: "config/" + key, Have: show(have, key), Effect: keyEffect(key)})
		}
	}
	return d
}

// subtractList returns the entries of a list, as show writes it, that are not in another: a node
// has many labels, and few change.
func subtractList(list, other string) string {
	there := strings.Split(other, ",")
	return strings.Join(slices.DeleteFunc(strings.Split(list, ","), func(v string) bool { return slices.Contains(there, v) }), ",")
}

// show returns a key's value for comparing and for display. ["a"] and "a" are the same, as in
// K3s. Values that may be secrets of a hand-written file are hidden.
func show(keys map[string]any, key string) string {
	v, there := keys[key]
	if !there {
		return ""
	}
	for _, secretive := range []string{"token", "secret-key", "access-key", "vpn-auth", "datastore-endpoint"} {
		if strings.HasSuffix(key, secretive) {
			return "[secret]"
		}
	}
	return plain(v)
}

// plain writes a value as it reads back from the file.
func plain(v any) string {
	switch v := v.(type) {
	case string, bool, int, int64, uint64:
		return fmt.Sprint(v)
	case []string:
		return strings.Join(v, ",")
	case float64: // the type of the file's numbers
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = plain(e)
		}
		return strings.Join(parts, ",")
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	var there any
	_ = json.Unmarshal(b, &there) // json's own message
	switch there.(type) {
	case nil, map[string]any:
		return fmt.Sprint(there)
	}
	return plain(there)
}

func diffManifests(have map[string]string, want map[string][]byte) converge.Diff {
	var d converge.Diff
	for _, name := range sortedKeys(want) {
		sum := sha256.Sum256(want[name])
		w := hex.EncodeToString(sum[:])
		if h := have[name]; h != w {
			d = append(d, converge.Field{Path: "manifest/" + name, Have: shortDigest(h), Want: shortDigest(w), Effect: converge.Update})
		}
	}
	return d
}

func shortDigest(sum string) string { return sum[:min(12, len(sum))] }

func mode(bits string) string {
	if bits == "" {
		return ""
	}
	return tokenFile + " with mode 0" + bits
}
