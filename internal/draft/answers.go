package draft

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Answers are what a person decides. The zero value of a field that [Inventory.Defaults]
// fills means that there is nothing to propose.
type Answers struct {
	Name string // of the cluster

	Endpoint    string // cluster.Lab, or any spelling of the API's address
	TokenID     string // user@realm!name; not for the lab
	Secret      string // env:NAME, file:PATH or sops:FILE#path, relative to the file that is written; not for the lab
	Fingerprint string // SHA-256 of the certificate; empty where the system trusts it
	Insecure    bool   // do not check it

	Servers       int // of the control plane
	GPUsPerWorker int // 0: two where they come in pairs, else one

	Bridge  string
	VLAN    int          // 0: untagged
	Prefix  netip.Prefix // of the nodes' network, IPv4
	Gateway netip.Addr
	First   netip.Addr // the nodes' addresses begin here; those in use are left out

	PublicKey string // path of a .pub file that may log in too; may be empty
}

// Sizes that are proposed, and bounds of what can be asked for.
const (
	maxServers  = 7
	firstOffset = 11 // routers and what people number by hand sit below
)

var (
	nameSyntax   = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)
	tokenSyntax  = regexp.MustCompile(`^[^\s@!=:/]+@[A-Za-z][A-Za-z0-9._-]*![A-Za-z][A-Za-z0-9._-]*$`)
	bridgeSyntax = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,14}$`)
)

// Defaults proposes a cluster for what was found: a name that no cluster there has,
// three servers where three hosts carry them, the bridge that most hosts have and its
// network. Endpoint and credentials are the caller's.
func (f Inventory) Defaults() Answers {
	a := Answers{Name: "homelab", Servers: 1}
	for i := 2; slices.Contains(f.Tags, "homelab-"+a.Name); i++ {
		a.Name = fmt.Sprintf("homelab%d", i)
	}
	a.Bridge = f.bestBridge()
	if len(f.hostsWithBridge(a.Bridge)) >= 3 {
		a.Servers = 3
	}
	return f.Readdress(a)
}

// Readdress proposes addresses for the bridge that a names: the network in which the
// hosts have their own, the gateway that they use, and the rest as [Inventory.Number] does.
func (f Inventory) Readdress(a Answers) Answers {
	a.VLAN, a.Prefix, a.Gateway, a.First = 0, netip.Prefix{}, netip.Addr{}, netip.Addr{}
	for _, h := range f.Hosts {
		b, _ := h.bridge(a.Bridge)
		p, err := netip.ParsePrefix(b.CIDR)
		if err != nil || !p.Addr().Is4() || a.Prefix.IsValid() {
			continue
		}
		a.VLAN, a.Prefix = h.VLANs[b.Name], p.Masked()
		if isNAT(b) {
			a.Gateway = p.Addr()
		}
		if gateway, err := netip.ParseAddr(b.Gateway); err == nil && p.Contains(gateway) {
			a.Gateway = gateway
		}
	}
	return f.Number(a)
}

// Number proposes what is not known of the network that a names: as the gateway its
// first address, where nobody else has it, and for the nodes the first run of addresses
// that nobody is known to have and that all of them fit into.
func (f Inventory) Number(a Answers) Answers {
	if !a.Prefix.IsValid() || !a.Prefix.Addr().Is4() {
		return a
	}
	if guess := a.Prefix.Masked().Addr().Next(); !a.Gateway.IsValid() && f.Used[guess] == "" {
		a.Gateway = guess // nobody said so; the file's comment says that it is a guess
	}
	a.First = f.firstFree(a)
	return a
}

// firstFree finds where a run of unused addresses begins that is long enough.
func (f Inventory) firstFree(a Answers) netip.Addr {
	need := f.addresses(a)
	start := firstOf(a.Prefix)
	run, first := 0, start
	for at := start; isHost(a.Prefix, at); at = at.Next() {
		switch {
		case f.Used[at] != "" || at == a.Gateway:
			run = 0
			continue
		case run == 0:
			first = at
		}
		if run++; run == need {
			return first
		}
	}
	return start
}

// firstOf is where machines' addresses begin in a network unless others have them.
func firstOf(p netip.Prefix) netip.Addr {
	start := p.Masked().Addr()
	for range min(firstOffset, 1<<min(32-p.Bits(), 16)/8+1) {
		start = start.Next()
	}
	return start
}

// isHost reports whether an address can be a machine's in a network.
func isHost(p netip.Prefix, a netip.Addr) bool {
	return a.Is4() && p.Contains(a) && a != p.Masked().Addr() && p.Contains(a.Next())
}

// isPrivate reports whether a host's address on a bridge is one of those that anybody may use; others are a
// provider's, who gives them out one by one.
func isPrivate(b proxmox.Bridge) bool {
	p, err := netip.ParsePrefix(b.CIDR)
	return err == nil && p.Addr().IsPrivate()
}

// isNAT reports whether a bridge has a private network that the host itself leads elsewhere: it has no port.
func isNAT(b proxmox.Bridge) bool {
	return b.Type == "bridge" && len(b.Ports) == 0 && b.Gateway == "" && isPrivate(b)
}

// bestBridge is the one that most hosts have, with an address of theirs in it.
func (f Inventory) bestBridge() string {
	score := map[string]int{}
	var names []string
	for _, h := range f.Hosts {
		for _, b := range h.Bridges {
			if !bridgeSyntax.MatchString(b.Name) {
				continue
			}
			names = append(names, b.Name)
			score[b.Name] += 4
			if b.CIDR != "" {
				score[b.Name]++
			}
			if b.Gateway != "" && isPrivate(b) {
				score[b.Name] += 2
			}
			if isNAT(b) {
				score[b.Name]++
			}
		}
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(score[y], score[x]), cmp.Compare(x, y)) })
	if len(names) == 0 {
		return "vmbr0"
	}
	return names[0]
}

// hostsWithBridge returns the hosts that have a bridge of that name; all, where none has.
func (f Inventory) hostsWithBridge(bridge string) []Host {
	out := slices.DeleteFunc(slices.Clone(f.Hosts), func(h Host) bool { _, has := h.bridge(bridge); return !has })
	if len(out) == 0 {
		return f.Hosts
	}
	return out
}

// CheckName says what is wrong with a cluster's name.
func CheckName(name string) error {
	if nameSyntax.MatchString(name) {
		return nil
	}
	return fmt.Errorf("name %q: write at most 32 lower-case letters, digits and hyphens, beginning with a letter", name)
}

// CheckServers says what is wrong with a number of servers.
func CheckServers(n int) error {
	if n >= 1 && n <= maxServers && n%2 == 1 {
		return nil
	}
	return fmt.Errorf("%d servers: write 1, or 3 to survive the loss of one", n)
}

// CheckGPUs says what is wrong with a number of GPUs for each worker; 0 leaves it to
// what was found.
func CheckGPUs(n int) error {
	if n >= 0 && n <= unit.MaxPCI {
		return nil
	}
	return fmt.Errorf("%d GPUs per worker: a VM takes 1 to %d", n, unit.MaxPCI)
}

// CheckInside says of an address that it is none that a machine of the network could
// have. name is what it is for.
func CheckInside(name string, network netip.Prefix, addr netip.Addr) error {
	if !network.IsValid() || isHost(network, addr) {
		return nil
	}
	return fmt.Errorf("%s %s: write one inside the network %s", name, addr, network)
}

// Check says everything that does not fit, each with what to answer instead.
func (a Answers) Check(f Inventory) error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, err := range []error{CheckName(a.Name), CheckServers(a.Servers), CheckGPUs(a.GPUsPerWorker)} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	bad(!bridgeSyntax.MatchString(a.Bridge), "bridge %q: write the name that the host's network page shows, e.g. vmbr0", a.Bridge)
	errs = append(errs, a.checkAccess()...)
	network := a.checkNetwork()
	errs = append(errs, network...)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	_, err := f.layout(a)
	return err
}

// checkAccess looks at endpoint and credentials.
func (a Answers) checkAccess() []error {
	var errs []error
	if a.Endpoint != spec.Lab {
		if err := CheckEndpoint(a.Endpoint); err != nil {
			errs = append(errs, err)
		}
		if err := CheckToken(a.TokenID); err != nil {
			errs = append(errs, err)
		}
		if ref, err := spec.ParseSecretRef(a.Secret); err != nil || plainText(ref.String()) != ref.String() {
			errs = append(errs, errors.New("the token's secret: write env:NAME, file:PATH or sops:FILE#path, where it can be found"))
		}
		digits := strings.NewReplacer(":", "").Replace(a.Fingerprint)
		if b, err := hex.DecodeString(digits); a.Fingerprint != "" && (err != nil || len(b) != 32) {
			errs = append(errs, errors.New("the fingerprint: write the SHA-256 one that pvenode cert info shows"))
		}
		if a.Insecure && a.Fingerprint != "" {
			errs = append(errs, errors.New("insecure would make the fingerprint useless: leave one of them out"))
		}
	}
	if a.PublicKey != "" {
		if _, err := os.Stat(a.PublicKey); err != nil || plainText(a.PublicKey) != a.PublicKey {
			errs = append(errs, fmt.Errorf("the public key %q cannot be read: write the path of a .pub file", a.PublicKey))
		}
	}
	return errs
}

var hostSyntax = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

// CheckToken says what is wrong with a token's ID.
func CheckToken(id string) error {
	if tokenSyntax.MatchString(id) {
		return nil
	}
	return errors.New("the token's ID: write user@realm!name, as in homelab@pve!cluster; its secret goes elsewhere")
}

// CheckEndpoint says what is wrong with an address of the API that is not the lab's.
func CheckEndpoint(text string) error {
	_, err := parseEndpoint(text)
	return err
}

// parseEndpoint reads an address of the API, with or without scheme, port and path.
func parseEndpoint(text string) (*url.URL, error) {
	wrong := fmt.Errorf("endpoint %q: write lab, or the address of a Proxmox VE host, e.g. 10.0.0.5 or https://pve.example.org:8006", plainText(text))
	if strings.TrimSpace(text) != text || text == "" || strings.Contains(text, "@") {
		return nil, wrong
	}
	if !strings.Contains(text, "://") {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() {
			text = "[" + text + "]"
		}
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || len(u.Hostname()) > 253 {
		return nil, wrong
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && !hostSyntax.MatchString(u.Hostname()) {
		return nil, wrong
	}
	var port int
	if _, err := fmt.Sscanf(cmp.Or(u.Port(), "8006"), "%d", &port); err != nil || port < 1 || port > 65535 {
		return nil, wrong
	}
	if p := strings.Trim(u.Path, "/"); p != "" && p != "api2/json" {
		return nil, wrong
	}
	return u, nil
}

// checkNetwork looks at the addresses.
func (a Answers) checkNetwork() []error {
	var errs []error
	switch {
	case !a.Prefix.IsValid():
		errs = append(errs, fmt.Errorf("the network of bridge %s is not known, since the hosts have no address in it: say which it is, e.g. 10.0.0.0/24 (-prefix)", a.Bridge))
	case !a.Prefix.Addr().Is4() || a.Prefix != a.Prefix.Masked() || a.Prefix.Bits() < 8 || a.Prefix.Bits() > 29:
		return append(errs, fmt.Errorf("network %s: write an IPv4 network from /8 to /29, e.g. 10.0.0.0/24", a.Prefix))
	}
	for _, x := range []struct {
		name, flag string
		addr       netip.Addr
	}{{"gateway", "-gateway", a.Gateway}, {"first address", "-first", a.First}} {
		switch {
		case !x.addr.IsValid():
			errs = append(errs, fmt.Errorf("the %s is not known: say which it is (%s)", x.name, x.flag))
		default:
			if err := CheckInside(x.name, a.Prefix, x.addr); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// plainText drops what a line of a file cannot hold.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune("\u2028\u2029\ufeff\ufffd", r) {
			return -1
		}
		return r
	}, s)
}
