package kubeadm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// Programs returns kubeadm, and kubelet and kubectl as one calls them by hand.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{"kubeadm": runKubeadm, "kubelet": runKubelet, "kubectl": runKubectl, "crictl": runCrictl, "ctr": runCtr, "crio": runCRIO}
}

func runKubelet(_ context.Context, p *machine.Proc) int {
	if len(p.Args) != 2 || p.Args[1] != "--version" {
		return p.Fail("only kubelet --version is simulated")
	}
	p.Printf("Kubernetes %s\n", ownVersion(p))
	return 0
}

func ownVersion(p *machine.Proc) string {
	file, err := p.Find(p.Args[0])
	if err != nil {
		return ""
	}
	data, _ := p.FS.ReadFile(file)
	return versionOf(data)
}

func runKubeadm(ctx context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "config", "kubeconfig", "ttl", "description", "ignore-preflight-errors", "skip-phases", "o", "output", "kubernetes-version", "cri-socket")
	if len(args) == 0 {
		return fails(p, 1, "a command is needed")
	}
	if args[0] == "version" {
		p.Printf("%s\n", ownVersion(p))
		return 0
	}
	if strings.Join(args, " ") == "config images list" {
		listImages(p, getopt.Last(opts, "kubernetes-version"))
		return 0
	}
	if p.User.UID != 0 {
		fmt.Fprintf(p.Stderr, "error: error execution phase preflight: [preflight] Some fatal errors occurred:\n\t[ERROR IsPrivilegedUser]: user is not running as root\n")
		return exitPreflight
	}
	switch {
	case args[0] == "init" || args[0] == "join":
		return start(ctx, p, opts, args)
	case args[0] == "reset":
		return reset(ctx, p, opts)
	case args[0] == "upgrade" && len(args) > 1:
		return upgrade(ctx, p, opts, args[1:])
	case strings.Join(args, " ") == "certs renew all":
		return renew(p)
	case args[0] == "token" && len(args) > 1:
		return tokens(ctx, p, opts, args[1], args[2:])
	}
	return fails(p, 1, "unknown command %q for \"kubeadm\"", args[0])
}

// start is kubeadm init and kubeadm join, and their phases that are called alone.
func start(ctx context.Context, p *machine.Proc, opts map[string][]string, args []string) int {
	d, err := readConfig(p, args[0], getopt.Last(opts, "config"))
	if err != nil {
		return fails(p, 1, "%v", err)
	}
	phase := strings.Join(args, " ")
	if phase == "init phase upload-certs" {
		return d.uploadCerts(ctx, p, opts)
	}
	if code := d.preflight(p, getopt.Last(opts, "ignore-preflight-errors")); code != 0 {
		return code
	}
	switch skip := getopt.Last(opts, "skip-phases"); {
	case strings.HasSuffix(phase, " phase preflight"):
		return 0
	case args[0] == "init" && skip == "":
		return d.initialize(ctx, p)
	case args[0] == "join" && (skip == "" || skip == "kubelet-start"):
		return d.join(ctx, p, skip == "")
	default:
		return fails(p, 1, "kubeadm %s --skip-phases=%s is not simulated", phase, skip)
	}
}

// exitPreflight is the exit status of failed checks (util/error.go).
const exitPreflight = 2

func fails(p *machine.Proc, code int, format string, args ...any) int {
	fmt.Fprintf(p.Stderr, "error: "+format+"\nTo see the stack trace of this error execute with --v=5 or higher\n", args...)
	return code
}

var tokenForm = regexp.MustCompile(`^([a-z0-9]{6})(\.[a-z0-9]{16})?$`)

// tokens is kubeadm token create and delete (cmd/token.go).
func tokens(ctx context.Context, p *machine.Proc, opts map[string][]string, verb string, ids []string) int {
	c, err := administer(ctx, p, cmp.Or(getopt.Last(opts, "kubeconfig"), etc+"/admin.conf"))
	if err != nil {
		return fails(p, 1, "%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.tokens, func(_ string, t token) bool { return t.over() }) // kube-controller-manager's tokencleaner
	switch verb {
	case "create":
		ttl := 24 * time.Hour
		if text := getopt.Last(opts, "ttl"); text != "" {
			var err error
			if ttl, err = time.ParseDuration(text); err != nil {
				return fails(p, 1, "invalid argument %q for \"--ttl\" flag: time: invalid duration %[1]q", text)
			}
		}
		p.Printf("%s\n", c.addToken(ttl, getopt.Last(opts, "description")))
		p.Sys.RecordChange("kubeadm token created")
	case "delete":
		for _, id := range ids {
			m := tokenForm.FindStringSubmatch(id)
			if m == nil {
				return fails(p, 1, `given token didn't match pattern "\\A([a-z0-9]{6})\\.([a-z0-9]{16})\\z" or "\\A([a-z0-9]{6})\\z"`)
			}
			if _, there := c.tokens[m[1]]; !there {
				return fails(p, 1, "failed to delete bootstrap token %q: secrets \"bootstrap-token-%[1]s\" not found", m[1])
			}
			delete(c.tokens, m[1])
			p.Sys.RecordChange("kubeadm token deleted")
			p.Printf("bootstrap token %q deleted\n", m[1])
		}
	default:
		return fails(p, 1, "kubeadm token %s is not simulated", verb)
	}
	return 0
}

// administer returns the cluster whose API answers where an administrator's file says.
func administer(ctx context.Context, p *machine.Proc, file string) (*cluster, error) {
	text, err := p.FS.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to load admin kubeconfig: open %s: no such file or directory", file)
	}
	m := serverLine.FindSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("failed to load admin kubeconfig: %s has no server", file)
	}
	c, err := reach(ctx, p.Sys, strings.TrimPrefix(string(m[1]), "https://"))
	if err != nil {
		return nil, fmt.Errorf("timed out waiting for the condition: %w", err)
	}
	return c, nil
}

// addToken makes a token up. c.mu must be held.
func (c *cluster) addToken(ttl time.Duration, description string) string {
	id, t := machine.HexID(3), token{secret: machine.HexID(8), description: description}
	if ttl > 0 {
		t.expires = time.Now().Add(ttl)
	}
	c.tokens[id] = t
	return id + "." + t.secret
}

// runKubectl is kubectl get --raw and kubectl delete node with an administrator's file.
func runKubectl(ctx context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "kubeconfig", "raw", "server", "tls-server-name")
	deletes := len(args) == 3 && args[0] == "delete" && args[1] == "node" && getopt.Has(opts, "ignore-not-found")
	if !deletes && (len(args) != 1 || args[0] != "get" || getopt.Last(opts, "raw") == "") {
		return p.Fail("only kubectl get --raw and kubectl delete node --ignore-not-found are simulated")
	}
	if _, err := p.FS.ReadFile(getopt.Last(opts, "kubeconfig")); err != nil {
		fmt.Fprintf(p.Stderr, "error: stat %s: no such file or directory\n", getopt.Last(opts, "kubeconfig"))
		return 1
	}
	if getopt.Last(opts, "server") != "https://127.0.0.1:6443" || getopt.Last(opts, "tls-server-name") != "kubernetes" {
		return p.Fail("only kubectl's question to the API server of its machine is simulated, whose certificate has no address of that name")
	}
	n := network.StateOf[servers](p.Sys.Config.Network).get(p.Sys.Answers())
	if n == nil {
		fmt.Fprintf(p.Stderr, "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?\n")
		return 1
	}
	if !n.answers() {
		fmt.Fprintf(p.Stderr, "Error from server (InternalError): an error on the server (\"[+]ping ok\\n[-]etcd failed: reason withheld\\nreadyz check failed\") has prevented the request from succeeding\n")
		return 1
	}
	if deletes {
		return n.deleteNode(ctx, p, args[2])
	}
	code, body, err := k3s.Get(ctx, n.cluster.plane, getopt.Last(opts, "raw"))
	if err != nil || code >= http.StatusMultipleChoices {
		fmt.Fprintf(p.Stderr, "Error from server: %s %v\n", body, err)
		return 1
	}
	p.Printf("%s", body)
	return 0
}
