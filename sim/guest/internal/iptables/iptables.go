package iptables

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns the programs of the packet filter.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"iptables-save": runIPTables, "iptables-restore": runIPTables,
		"ip6tables-save": runIPTables, "ip6tables-restore": runIPTables,
	}
}

// packetFilter is what iptables-save prints of one family: chains and rules, by
// table. It lives as long as the kernel does.
type packetFilter struct {
	mu     sync.Mutex
	tables []string // in the order in which they are shown
	chains map[string][]string
	rules  map[string][]string
}

// k3sRules are a few of those that K3s' kube-proxy, network policies, flannel and
// portmap plugin leave behind when K3s is stopped.
const k3sRules = `*mangle
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:FLANNEL-FWD - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
-A INPUT -m comment --comment "kube-router netpol - 4IA2OSFRMVNDXBVV" -j KUBE-ROUTER-INPUT
-A INPUT -j KUBE-FIREWALL
` + `-A INPUT -m comment --comment "KUBE-ROUTER rule to explicitly ACCEPT traffic that comply to network policies"` +
	` -m mark --mark 0x20000/0x20000 -j ACCEPT
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s 10.42.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
*nat
:CNI-HOSTPORT-DNAT - [0:0]
:FLANNEL-POSTRTG - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
COMMIT
`

func filterOf(s *machine.System) *packetFilter { return machine.StateOf[packetFilter](s) }

// K3sStarts leaves the rules of K3s, where none are yet.
func K3sStarts(s *machine.System) {
	f := filterOf(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.chains["nat"]) == 0 {
		f.apply(k3sRules)
	}
}

// apply is iptables-restore --noflush. It reports the first line that the kernel
// refuses.
func (f *packetFilter) apply(text string) (refused string) {
	if f.chains == nil {
		f.chains, f.rules = map[string][]string{}, map[string][]string{}
	}
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "COMMIT" || line == "" || line[0] == '#':
		case line[0] == '*':
			if table = line[1:]; !slices.Contains(f.tables, table) {
				f.tables = append(f.tables, table)
			}
		case line[0] == ':':
			f.chain(table, verb[1:])
		case verb == "-A":
			f.rules[table] = append(f.rules[table], rest)
		case verb == "-D" && slices.Contains(f.rules[table], rest):
			i := slices.Index(f.rules[table], rest)
			f.rules[table] = slices.Delete(f.rules[table], i, i+1)
		case verb == "-X" && !f.inUse(table, rest):
			f.chains[table] = slices.DeleteFunc(f.chains[table], func(c string) bool { return c == rest })
		default:
			return line
		}
	}
	return ""
}

// chain makes a chain, or empties the one that is there.
func (f *packetFilter) chain(table, name string) {
	if !slices.Contains(f.chains[table], name) {
		f.chains[table] = append(f.chains[table], name)
	}
	f.rules[table] = slices.DeleteFunc(f.rules[table], func(r string) bool { return strings.HasPrefix(r, name+" ") })
}

// inUse reports whether a chain has rules or is led to, and so cannot be deleted.
func (f *packetFilter) inUse(table, chain string) bool {
	return !slices.Contains(f.chains[table], chain) || slices.ContainsFunc(f.rules[table], func(r string) bool {
		return strings.HasPrefix(r, chain+" ") || strings.HasSuffix(r, " -j "+chain)
	})
}

func (f *packetFilter) String() string {
	var b strings.Builder
	for _, t := range f.tables {
		b.WriteString("*" + t + "\n")
		for _, c := range f.chains[t] {
			b.WriteString(":" + c + " - [0:0]\n")
		}
		for _, r := range f.rules[t] {
			b.WriteString("-A " + r + "\n")
		}
		b.WriteString("COMMIT\n")
	}
	return b.String()
}

// runIPTables is iptables-save and iptables-restore --noflush. K3s is IPv4 here, so
// ip6tables shows nothing.
func runIPTables(_ context.Context, p *machine.Proc) int {
	if p.User.UID != 0 {
		return p.Fail("Permission denied (you must be root)")
	}
	filter := filterOf(p.Sys)
	filter.mu.Lock()
	defer filter.mu.Unlock()
	switch p.Name() {
	case "iptables-save":
		p.Printf("%s", filter)
	case "iptables-restore":
		if opts, _ := getopt.Parse(p.Args[1:]); !getopt.Has(opts, "noflush", "n") {
			return p.Fail("only --noflush is simulated")
		}
		text, err := io.ReadAll(p.Stdin)
		if err != nil {
			return p.Fail("%v", err)
		}
		if refused := filter.apply(string(text)); refused != "" {
			return p.Fail("line failed: %s", refused)
		}
		p.Sys.RecordChange("iptables-restore")
	}
	return 0
}
