package jupyterhub

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/secret"
)

// Problem is a mistake in a Hub, with its field.
type Problem struct {
	Field string // as in Go, e.g. Profiles[gpu].SHM
	Text  string // what is wrong, and what to do
}

// Problems is an error with all mistakes at once.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Field + ": " + one.Text
	}
	return strings.Join(lines, "\n")
}

// checker collects problems.
type checker struct{ all Problems }

func (c *checker) say(field, format string, args ...any) {
	c.all = append(c.all, Problem{Field: field, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) need(field, value, what string) {
	if strings.TrimSpace(value) == "" {
		c.say(field, "missing: %s", what)
	}
}

func (c *checker) needSecret(field string, value secret.Value, what string) {
	c.need(field, value.Reveal(), what)
}

// Check returns everything that is wrong with the hub, as [Problems]. It needs no network.
func (h Hub) Check() error {
	c := &checker{}
	h.checkPlace(c)
	login{h}.checkAuth(c)
	h.checkStorage(c)
	h.checkProfiles(c)
	h.checkCull(c)
	if len(c.all) == 0 {
		return nil
	}
	return c.all
}

var (
	// dnsName is a name of RFC 1123 with dots: a host, or an object of Kubernetes.
	dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// dnsLabel is one part of such a name.
	dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	// envName is a variable's name that Kubernetes accepts and a shell can read.
	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (h Hub) checkPlace(c *checker) {
	if len(h.Hostname) > 253 || !dnsName.MatchString(h.Hostname) {
		c.say("Hostname", "%q is not a host name: want e.g. hub.lab.example", h.Hostname)
	}
	if !dnsLabel.MatchString(h.namespace()) || len(h.namespace()) > 63 {
		c.say("Namespace", "%q is not a name of a namespace", h.Namespace)
	}
	switch cmp.Or(h.Ingress.Kind, ByIngress) {
	case ByIngress, ByLoadBalancer:
	case ByGateway:
		c.need("Ingress.Gateway", h.Ingress.Gateway, "the name of the Gateway that the route belongs to")
	default:
		c.say("Ingress.Kind", "%q: want %s, %s or %s", h.Ingress.Kind, ByIngress, ByGateway, ByLoadBalancer)
	}
	for _, prefix := range h.Reach {
		if !prefix.IsValid() {
			c.say("Reach", "a network without an address")
		}
	}
	switch cmp.Or(h.Database.Kind, SQLite) {
	case SQLite:
		c.size("Database.Size", h.Database.Size)
	case Postgres:
		if h.Database.Name != "" {
			break
		}
		if _, _, err := splitDatabase(h.Secrets.Database); err != nil {
			c.say("Database.URL", "%v", err)
		}
	default:
		c.say("Database.Kind", "%q: want %s or %s", h.Database.Kind, SQLite, Postgres)
	}
	if q := h.Quota; q.GPUs < 0 || q.CPU < 0 || q.Memory < 0 {
		c.say("Quota", "must not be negative; 0 means no limit")
	}
}

func (c *checker) size(field string, b spec.Size) {
	if b < 0 {
		c.say(field, "%d bytes: must not be negative", int64(b))
	}
}

func (h Hub) checkStorage(c *checker) {
	c.size("Home.Size", h.Home.Size)
	c.size("SHM", h.SHM)
	c.template("Home.ClaimTemplate", h.Home.ClaimTemplate)
	c.template("Home.SubPath", h.Home.SubPath)
	if h.Home.Claim != "" && h.Home.SubPath != "" && !strings.Contains(h.Home.SubPath, "{") {
		c.say("Home.SubPath", "%q is the same folder for all users: want {username} in it", h.Home.SubPath)
	}
	if t := h.Home.ClaimTemplate; h.Home.Claim == "" && t != "" && !strings.Contains(t, "{") {
		c.say("Home.ClaimTemplate", "%q is the same claim for all users: want {username} in it, or set Claim", t)
	}
	paths := map[string]string{cmp.Or(h.Home.Path, "/home/jovyan"): "Home.Path"}
	if h.Home.Path != "" {
		c.path("Home.Path", h.Home.Path)
	}
	names := map[string]bool{}
	for _, s := range h.Shared {
		c.share("Shared["+s.Name+"]", s, h.Exports[s.Name], names, paths)
	}
	if s := h.Scratch; s != nil {
		if s.Size <= 0 {
			c.say("Scratch.Size", "missing: how much each server gets")
		}
		c.mount("Scratch.Path", cmp.Or(s.Path, "/scratch"), paths)
	}
}

func (c *checker) share(field string, s spec.HubShare, export NFSExport, names map[string]bool, paths map[string]string) {
	if !dnsLabel.MatchString(s.Name) || len(s.Name) > 50 {
		c.say(field+".Name", "%q: want small letters, digits and dashes, at most 50", s.Name)
	}
	if names[s.Name] {
		c.say(field+".Name", "there is a share of this name already")
	}
	names[s.Name] = true
	c.need(field+".NFS.Server", export.Server, "the NFS server")
	c.path(field+".NFS.Export", export.Export)
	c.mount(field+".Path", s.Path, paths)
	if s.PerGroup && len(s.Groups) == 0 {
		c.say(field+".PerGroup", "there are no groups")
	}
	for _, g := range s.Groups {
		if s.PerGroup && (g == "" || g == "." || g == ".." || strings.ContainsAny(g, "/{}:")) {
			c.say(field+".Groups", "%q cannot be a folder", g)
		}
	}
}

// mount checks a path in the notebook, and that nothing else uses it.
func (c *checker) mount(field, p string, paths map[string]string) {
	if !c.path(field, p) {
		return
	}
	if other, ok := paths[p]; ok {
		c.say(field, "%s is %s already", p, other)
	}
	paths[p] = field
	for _, taken := range []string{"/dev/shm", "/etc/homelab/ca", "/run/homelab-ca", sshPath} {
		if p == taken {
			c.say(field, "%s is mounted already", p)
		}
	}
}

func (c *checker) path(field, p string) bool {
	ok := path.IsAbs(p) && path.Clean(p) == p && p != "/" && !strings.ContainsAny(p, ":{}")
	if !ok {
		c.say(field, "%q: want an absolute path such as /data, without : and braces", p)
	}
	return ok
}

// placeholders are what kubespawner 7.1 replaces in templates
// (spawner.py, _expand_user_properties).
var placeholders = []string{
	"username", "servername", "user_server", "userid", "unescaped_username", "unescaped_servername", "hubnamespace",
	"safe_username", "safe_servername", "safe_user_server", "escaped_username", "escaped_servername", "escaped_user_server",
	"pod_name", "pvc_name", "namespace",
}

// template checks the braces of a text that kubespawner fills in with Python's
// format: any other brace fails the start of every server.
func (c *checker) template(field, text string) {
	rest := strings.NewReplacer("{{", "", "}}", "").Replace(text)
	for {
		open := strings.IndexAny(rest, "{}")
		if open < 0 {
			return
		}
		end := strings.IndexByte(rest[open:], '}')
		if rest[open] == '}' || end < 0 || !slices.Contains(placeholders, rest[open+1:open+end]) {
			c.say(field, "%q: kubespawner expands text in braces and knows only {username} and the like: double literal braces", text)
			return
		}
		rest = rest[open+end+1:]
	}
}

func (h Hub) checkCull(c *checker) {
	if !isOn(h.Cull.Enabled) {
		return
	}
	if h.Cull.Idle < 0 || h.Cull.MaxAge < 0 || h.Cull.Every < 0 {
		c.say("Cull", "must not be negative")
	}
	if idle(h.Cull) < every(h.Cull) {
		c.say("Cull.Idle", "%s is shorter than the interval between checks, %s: servers would live longer than that", idle(h.Cull), every(h.Cull))
	}
	for _, p := range h.Profiles {
		if p.Idle != 0 && p.Idle < every(h.Cull) {
			c.say("Profiles["+p.Name+"].Idle", "%s is shorter than the interval between checks, %s", p.Idle, every(h.Cull))
		}
	}
	for _, name := range h.Cull.Exempt {
		c.need("Cull.Exempt", name, "a user's name")
	}
}
