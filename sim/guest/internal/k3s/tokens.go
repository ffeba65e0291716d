package k3s

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// bootstrapToken is one of "k3s token create".
type bootstrapToken struct {
	secret, description string
	expires             time.Time // zero: never
}

// valid reports whether a token in the form ID.SECRET still lets an agent in. c.mu must be
// held.
func (c *cluster) valid(credentials string) bool {
	id, secret, _ := strings.Cut(credentials, ".")
	t, ok := c.bootstrap[id]
	return ok && t.secret == secret && !t.over()
}

func (t bootstrapToken) over() bool { return !t.expires.IsZero() && !time.Now().Before(t.expires) }

// clientCertificate stands for the certificate that makes a machine known as its node. A server
// accepts it in place of a token.
const clientCertificate = dir + "/agent/client-kubelet.crt"

// isKnown reports whether a machine has the certificate of its node in this cluster.
func (c *cluster) isKnown(n *node) bool {
	cert, err := n.sys.Root().ReadFile(clientCertificate)
	return err == nil && disk.Value(cert, "cluster") == c.id && disk.Value(cert, "node") == n.name
}

// claimNode asks a server for the certificates of the agent's node. If the agent has them from
// earlier, it authenticates with them. Without its Node they are refused, and K3s' second try,
// with the token, fails whatever the token is: it sends the body of a request that was sent
// already (v1.34.3, getNodeNamedCrt of pkg/agent/config/config.go; seen on the real thing). Servers
// look at a token of theirs before the certificate, and at a bootstrap token after it
// (pkg/authenticator/authenticator.go, FromArgs).
func (n *node) claimNode(ctx context.Context, server *node) error {
	t := parseToken(n.token)
	if own := !t.bootstrap && n.cluster.accepts(t, "agent") == nil; !own && n.cluster.isKnown(n) {
		// A server knows its Nodes, also while the API does not answer.
		if there, err := nodeExists(ctx, n.cluster.plane, n.name); err == nil && !there {
			server.refuses(n, 401, fmt.Sprintf("unable to verify node identity: nodes %q not found", n.name))
			n.say("info", "Node authorization rejected, retrying without client certificate authentication")
			return servingCertificate(`Post "https://127.0.0.1:6444/v1-k3s/serving-kubelet.crt": http: ContentLength=189 with Body length 0`)
		}
	}
	if err := n.claimName(ctx); err != nil {
		server.refuses(n, 403, "unable to verify password for node "+n.name+": hash does not match")
		return err
	}
	n.getsCertificate()
	return nil
}

// servingCertificate is why an agent does not get the first of its certificates.
func servingCertificate(why string) error {
	return errors.New(dir + "/agent/serving-kubelet.crt: " + why)
}

// getsCertificate is what a machine gets when a server has accepted its name and password.
func (n *node) getsCertificate() {
	n.sys.Root().Save(clientCertificate, n.identity(), 0o600)
}

// identity is what a machine's certificate says, for our servers to read.
func (n *node) identity() string { return "cluster: " + n.cluster.id + "\nnode: " + n.name + "\n" }

var (
	tokenIDForm = regexp.MustCompile(`^[a-z0-9]{6}$`)
	tokenForm   = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
)

// tokens is k3s token create, list and delete (pkg/cli/token/token.go).
func tokens(p *machine.Proc, c *cluster, verb string, args []string) int {
	opts, rest := getopt.Parse(args, "kubeconfig", "data-dir", "ttl", "description", "groups", "usages", "output", "o", "d")
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.bootstrap, func(_ string, t bootstrapToken) bool { return t.over() }) // a controller does so at once
	switch verb {
	case "create":
		ttl := 24 * time.Hour
		if text := getopt.Last(opts, "ttl"); text != "" {
			var err error
			if ttl, err = time.ParseDuration(text); err != nil {
				return fatal(p, "invalid value %q for flag -ttl: parse error", text)
			}
		}
		id, t := machine.HexID(3), bootstrapToken{secret: machine.HexID(8), description: getopt.Last(opts, "description")}
		if ttl > 0 {
			t.expires = time.Now().Add(ttl)
		}
		c.bootstrap[id] = t
		p.Sys.RecordChange("k3s token created")
		p.Printf("K10%s::%s.%s\n", c.caHash, id, t.secret)
	case "list":
		c.listTokens(p)
	case "delete":
		if len(rest) == 0 {
			return fatal(p, "missing argument; 'token delete' is missing token")
		}
		return c.deleteTokens(p, rest)
	default:
		return fatal(p, "k3s token %s is not simulated", verb)
	}
	return 0
}

func (c *cluster) deleteTokens(p *machine.Proc, ids []string) int {
	for _, id := range ids {
		if m := tokenForm.FindStringSubmatch(id); m != nil {
			id = m[1]
		}
		if !tokenIDForm.MatchString(id) {
			return fatal(p, `given token didn't match pattern "\\A([a-z0-9]{6})\\z" or "\\A([a-z0-9]{6})\\z"`)
		}
		if _, there := c.bootstrap[id]; !there {
			missing := fmt.Sprintf("secrets %q not found", "bootstrap-token-"+id)
			return fatal(p, "failed to delete bootstrap token %q: %s", missing, missing)
		}
		delete(c.bootstrap, id)
		p.Sys.RecordChange("k3s token deleted")
		p.Printf("bootstrap token %q deleted\n", id)
	}
	return 0
}

func (c *cluster) listTokens(p *machine.Proc) {
	w := tabwriter.NewWriter(p.Stdout, 10, 4, 3, ' ', 0)
	defer func() { _ = w.Flush() }()
	fmt.Fprint(w, "TOKEN\tTTL\tEXPIRES\tUSAGES\tDESCRIPTION\tEXTRA GROUPS\n")
	for _, id := range slices.Sorted(maps.Keys(c.bootstrap)) {
		t := c.bootstrap[id]
		ttl, expires, description := "<forever>", "<never>", "<none>"
		if !t.expires.IsZero() {
			ttl, expires = roughly(time.Until(t.expires)), t.expires.UTC().Format(time.RFC3339)
		}
		if t.description != "" {
			description = t.description
		}
		fmt.Fprintf(w, "%s\t%s\t%s\tauthentication,signing\t%s\tsystem:bootstrappers:k3s:default-node-token\n", id, ttl, expires, description)
	}
}

// roughly is a duration in its largest unit, as Kubernetes writes ages.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// fatal is the last word of a command of K3s that fails.
func fatal(p *machine.Proc, format string, args ...any) int {
	fmt.Fprintf(p.Stderr, "time=%q level=fatal msg=%q\n", time.Now().UTC().Format(time.RFC3339), "Error: "+fmt.Sprintf(format, args...))
	return 1
}
