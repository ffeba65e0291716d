package draft

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
)

// docs is where the pages about cluster.yaml are; a folder of one's own does not have them.
const docs = "https://github.com/cps-gpu/homelab/blob/main/docs/"

// Render writes the cluster file for what was found and answered. The error is that of
// [Answers.Check].
func Render(f Inventory, a Answers) (string, error) {
	if err := a.Check(f); err != nil {
		return "", err
	}
	l, _ := f.layout(a) // Check has tried it
	w := &writer{found: f, answers: a, layout: l, given: map[string]int{}}
	w.head()
	w.proxmox()
	w.image()
	w.network()
	w.kubernetes()
	w.ssh()
	w.pools()
	w.commentedKeys()
	return w.b.String(), nil
}

type writer struct {
	b       strings.Builder
	found   Inventory
	answers Answers
	layout  layout
	given   map[string]int // devices and further cards' addresses that are in a line above
}

// line writes a line; what came from elsewhere cannot end it.
func (w *writer) line(format string, args ...any) {
	w.b.WriteString(strings.TrimRight(plainText(fmt.Sprintf(format, args...)), " ") + "\n")
}

// comment writes remarks, each on lines of its own.
func (w *writer) comment(indent int, remarks ...string) {
	const width = 100
	for _, r := range remarks {
		at := strings.Repeat(" ", indent) + "#"
		line := at
		for _, word := range strings.Fields(r) {
			if len(line)+1+len(word) > width && line != at {
				w.line("%s", line)
				line = at
			}
			line += " " + word
		}
		w.line("%s", line)
	}
}

// lab reports whether the file is for the embedded lab.
func (w *writer) lab() bool { return w.answers.Endpoint == spec.Lab }

func (w *writer) head() {
	servers, workers, gpus := 0, 0, 0
	for _, p := range w.layout.pools {
		if p.server {
			servers += p.count()
			continue
		}
		workers, gpus = workers+p.count(), gpus+p.count()*p.gpus
	}
	has := "without a GPU"
	if gpus > 0 {
		has = fmt.Sprintf("with %s in all", printable.Count(gpus, "GPU"))
	}
	w.comment(0,
		fmt.Sprintf("%s and %s %s, on Proxmox VE %s.", printable.Count(servers, "server"), printable.Count(workers, "worker"), has, w.found.Version),
		"Written by cluster:init from what it found, and yours from now on: see "+docs+"cluster-yaml.md.")
	w.comment(0, "Next: homelab cluster:plan shows what it will create, homelab cluster:up creates it.")
	w.line("name: %s", scalar(w.answers.Name))
}

func (w *writer) proxmox() {
	a := w.answers
	w.line("")
	w.line("proxmox:")
	if w.lab() {
		w.line("  endpoint: lab # simulated hosts on this machine; for real ones run cluster:init again")
	} else {
		w.line("  endpoint: %s", scalar(address(a.Endpoint)))
		w.line("  token: %s", scalar(a.TokenID))
		w.line("  secret: %s # where the token's secret is, which has no place in this file", scalar(a.Secret))
		switch {
		case a.Fingerprint != "":
			w.line("  # Of the certificate that the host showed: pvenode cert info, on the host, shows it too.")
			w.line("  fingerprint: %s", scalar(strings.ToUpper(a.Fingerprint)))
		case a.Insecure:
			w.line("  insecure: true # anybody on the way can read the token: write fingerprint: instead")
		}
	}
	w.line("  host: %s # of nodes that name none", scalar(w.layout.hosts[0].Name))
	w.line("  hosts: # what they have: sums of what is asked below are checked against it")
	for _, h := range w.layout.hosts {
		storage := ""
		if name, free := bestStorage(h); name != "" && free >= gib {
			storage = fmt.Sprintf(", storage: {%s: %s}", scalar(name), floorGiB(free))
		}
		w.line("    %s: {cores: %d, memory: %s, gpus: %d%s}", scalar(h.Name), h.CPUs, floorGiB(h.Memory), len(h.FreeGPUs()), storage)
		var notes []string
		if h.Promised > 0 {
			notes = append(notes, fmt.Sprintf("%s of its memory are promised to VMs and containers that are there already.", floorGiB(h.Promised)))
		}
		if name, free := bestStorage(h); name != "" {
			notes = append(notes, fmt.Sprintf("%s has %s free.", name, floorGiB(free)))
		}
		w.comment(6, strings.Join(notes, " "))
	}
	if len(w.layout.unused) > 0 {
		w.comment(2, "Not used:")
		for _, u := range w.layout.unused {
			w.comment(4, "- "+u)
		}
	}
}

func (w *writer) image() {
	images, noImages := w.fileStorage("import")
	seeds, noSeeds := w.fileStorage("iso")
	if images == "local" && seeds == "local" && noImages == "" && noSeeds == "" {
		return // the defaults
	}
	w.line("")
	w.line("image: # Ubuntu 24.04, unless you name another; this is where its files are kept")
	for _, cure := range []string{noImages, noSeeds} {
		if cure != "" {
			w.comment(2, cure)
		}
	}
	w.line("  storage: %s # content import: the downloaded image", scalar(images))
	w.line("  seedStorage: %s # content iso: what each machine is told at first boot", scalar(seeds))
}

func (w *writer) network() {
	a := w.answers
	w.line("")
	w.line("network:")
	w.bridges()
	w.line("  prefix: %s", a.Prefix)
	told, own := false, ""
	for _, h := range w.found.Hosts {
		b, _ := h.bridge(a.Bridge)
		told = told || b.Gateway == a.Gateway.String()
		if isNAT(b) && strings.HasPrefix(b.CIDR, a.Gateway.String()+"/") {
			own = h.Name
		}
	}
	switch {
	case told:
		w.line("  gateway: %s # the hosts' own", a.Gateway)
	case own != "":
		w.line("  gateway: %s # %s itself: %s has no port, so it must forward and translate (NAT)", a.Gateway, own, a.Bridge)
	default:
		w.line("  gateway: %s # none of the hosts says so: is it right?", a.Gateway)
	}
	dns := "dns: [...] # the gateway, unless you write another"
	if own != "" {
		dns += "; does " + own + " answer for names?"
	}
	w.comment(2, dns)
	var used []netip.Addr
	for addr := range w.found.Used {
		if a.Prefix.Contains(addr) {
			used = append(used, addr)
		}
	}
	slices.SortFunc(used, netip.Addr.Compare)
	const most = 12
	var who []string
	for _, addr := range used[:min(most, len(used))] {
		who = append(who, fmt.Sprintf("%s (%s)", addr, w.found.Used[addr]))
	}
	if len(used) > most {
		who = append(who, fmt.Sprintf("and %d more", len(used)-most))
	}
	if len(who) > 0 {
		w.comment(2, "Known to be in use there: "+strings.Join(who, ", ")+".")
	}
	w.comment(2, "Addresses below are not known to be in use. See that your DHCP server does not give them away.")
}

func (w *writer) kubernetes() {
	ordinary := w.layout.pods == netip.MustParsePrefix("10.42.0.0/16")
	if !w.layout.vip.IsValid() && ordinary {
		return
	}
	w.line("")
	w.line("k3s:")
	if w.layout.vip.IsValid() {
		w.line("  vip: %s # the API's address; it moves to another server when one dies", w.layout.vip)
	}
	if !ordinary {
		w.line("  podCIDR: %s # the usual ones are in use at your place", w.layout.pods)
		w.line("  serviceCIDR: %s", w.layout.service)
	}
}

func (w *writer) ssh() {
	if w.answers.PublicKey == "" {
		return
	}
	w.line("")
	w.line("ssh:")
	w.line("  publicKeys: [%s] # may log in to the nodes, beside the key that the API token gives", scalar(w.answers.PublicKey))
}

func (w *writer) pools() {
	first := ""
	for _, p := range w.layout.pools {
		if first == "" {
			first = p.storage
		}
	}
	w.line("")
	w.defaults(first)
	w.line("pools:")
	for i, p := range w.layout.pools {
		if i > 0 {
			w.line("")
		}
		w.pool(p, first)
	}
	w.elsewhere()
}

func (w *writer) pool(p pool, storage string) {
	w.line("  %s: # %s", scalar(p.name), nodeNames(p))
	if p.server {
		w.line("    role: server")
		switch {
		case p.count() > 1:
			w.comment(4, fmt.Sprintf("%d servers go on when one fails.", p.count()))
		default:
			w.comment(4, "One is enough for one host. Three go on when one fails: write count: 3, three addresses, and k3s: {vip: a fourth}.")
		}
	}
	w.line("    count: %d", p.count())
	w.line("    addresses: [%s]", ranges(p.addresses))
	if p.hosts[0] != w.layout.hosts[0].Name && !p.server {
		w.line("    host: %s", scalar(p.hosts[0]))
	}
	if p.storage != storage && p.storage != "" {
		w.line("    storage: %s", scalar(p.storage))
	}
	w.line("    cores: %d", p.cores)
	w.line("    memory: %s%s", p.memory, map[bool]string{true: " # all of it is pinned on the host while the machine runs"}[p.gpus > 0])
	w.line("    disks:")
	w.line("      os: {size: %s}", p.disk)
	w.cardsAndDevices(p)
	if p.gpus == 0 {
		return
	}
	if p.model != "" {
		w.line("    gpus: {count: %d, model: %s}", p.gpus, scalar(p.model))
	} else {
		w.line("    gpus: %d # which ones, cluster:plan says; {pci: [...]} names them", p.gpus)
	}
	w.comment(4, "Free on "+p.hosts[0]+": "+w.cards(p)+".")
}

// cards lists the free cards of a pool's host.
func (w *writer) cards(p pool) string {
	i := slices.IndexFunc(w.layout.hosts, func(h Host) bool { return h.Name == p.hosts[0] })
	var at []string
	model := ""
	for _, g := range w.layout.hosts[i].FreeGPUs() {
		if p.model == "" || g.Model == p.model { // without a filter all are of one model
			at, model = append(at, g.Address), g.Model
		}
	}
	return fmt.Sprintf("%s at %s", model, strings.Join(at, ", "))
}

// elsewhere puts servers on hosts that are not the default one.
func (w *writer) elsewhere() {
	p := w.layout.pools[0]
	said := false
	for i, host := range p.hosts {
		if host == w.layout.hosts[0].Name {
			continue
		}
		if !said {
			w.line("")
			w.line("nodes: # one server on each host, so that one of them may fail")
		}
		said = true
		storage := ""
		at := slices.IndexFunc(w.layout.hosts, func(h Host) bool { return h.Name == host })
		if name, _ := bestStorage(w.layout.hosts[at]); name != "" && name != p.storage {
			storage = fmt.Sprintf(", storage: %s", scalar(name))
		}
		w.line("  %s%d: {host: %s%s}", p.name, i+1, scalar(host), storage)
	}
}

// platform is a first configuration of the parts on Kubernetes. It is written as
// comments: without the # they are valid keys.
func (w *writer) platform() []string {
	storage := []string{"storage: {nfs: nas.lab.example:/export/k3s} # volumes that every node reaches; without it a home stays on one node"}
	if h := w.layout.homes; h.address.IsValid() {
		storage = []string{
			"storage: # volumes that every node reaches; without it a home stays on the node of its owner's first notebook",
			fmt.Sprintf("  nfs: {vm: {address: %s, size: %s}} # a small server that is made; or one that is there: nas.lab.example:/export/k3s", h.address, h.size),
		}
	}
	return append(storage,
		"tls: self-signed # an authority that is made in the cluster",
		"hub: # JupyterHub",
		"  hostname: hub.lab.example # a name that your DNS resolves to a node",
		"  auth: {kind: native, admins: [you]} # sign up as one of the admins, who then let others in",
	)
}

// commentedKeys shows what people add next.
func (w *writer) commentedKeys() {
	w.line("")
	w.line("# What people add next, see " + docs + "cluster-yaml.md:")
	w.line("#   scratch: {size: 500GiB, mount: /scratch}                 under disks of a pool: fast space that may be lost")
	w.line("#   nvidia: {sharing: {strategy: time-slicing, replicas: 4}}  several pods on one GPU")
	w.line("# Parts of the platform; remove the # of a line to turn it on:")
	for _, l := range w.platform() {
		w.line("# %s", l)
	}
}
