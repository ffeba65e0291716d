package clusterfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/kubernetes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// validate checks the file as a whole: what involves several sections.
func (r *resolver) validate() {
	r.servers()
	proxmoxSection{r}.noProxmox()
	labSection{r}.realGuests()
	nodesSection{r}.uniqueNodes()
	for _, n := range r.machines() {
		networkSection{r}.nodeNetwork(n)
		nodesSection{r}.nodeLabels(n)
		capacitySection{r}.nodeHost(n)
	}
	networkSection{r}.vip()
	rangesSection{r}.check()
	cardsSection{r}.ofKubernetes()
	capacitySection{r}.cards()
	devicesSection{r}.onePerHost()
	k3sSection{r}.runtimeClass()
	capacitySection{r}.capacity()
	partsSection{r}.validatePlatform()
	operatorSection{r}.sharingOfStack()
	r.warnUnused()
}

func (r *resolver) servers() {
	servers := 0
	for _, n := range r.nodes {
		if n.Role == spec.Server {
			servers++
		}
	}
	at := any(&r.spec.Pools)
	for i := range r.spec.Pools {
		if p := &r.spec.Pools[i]; p.Role == spec.Server {
			at = p
		}
	}
	switch {
	case r.badRole, len(r.nodes) == 0 && r.Undecoded(): // reported elsewhere
	case len(r.nodes) == 0:
		r.Wrong(&r.spec.Pools, "the cluster has no nodes", "write pools: with at least one of role server, e.g. pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}")
	case servers == 0:
		r.Wrong(at, "the cluster has no server", "write role: server in one of the pools; 3 servers survive the loss of one")
	case servers%2 == 0:
		r.Warn(at, fmt.Sprintf("%d servers are no safer than %d: etcd needs more than half of them, so one more server does not allow one more failure", servers, servers-1), fmt.Sprintf("make it %d or %d", servers-1, servers+1))
	case servers > 7:
		r.Warn(at, fmt.Sprintf("%d servers are slower than 5: every write waits for more than half of them", servers), "make it 3 or 5")
	}
}

// Load reads a cluster file. If it has mistakes, the error is [spec.Problems], with all of
// them, those that the checks find among them. Load does not read secrets.
func Load(path string, checks ...spec.Check) (*spec.Spec, error) {
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: name another with -spec=FILE, or let homelab cluster:init make one", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster file: %w", err)
	}
	return Parse(path, data, checks...)
}

// read reads a cluster file, which may be a pipe: -spec=<(…).
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(limit.Reader(f, limit.Named))
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return data, err
}

// Parse reads a cluster file's contents. The name is for messages, and for
// finding the files that data names by relative paths: keys, certificates, sources.
func Parse(filename string, data []byte, checks ...spec.Check) (*spec.Spec, error) {
	c := decode.NewChecker(filename)
	root := decode.ReadTree(c, data)
	if root == nil {
		return nil, c.Err()
	}
	return resolve(c, root, filename, c.Dir, checks)
}

// resolve makes a Spec of a tree.
func resolve(c *decode.Checker, root *yamlnode.Node, file, dir string, checks []spec.Check) (*spec.Spec, error) {
	raw := &spec.Spec{}
	raw.File, raw.Dir = file, dir
	c.DecodeTree(root, raw, "")
	if c.Unclear {
		return nil, c.Err() // what else is wrong depends on which is meant
	}
	r := &resolver{Checker: c, spec: raw, entries: raw.Nodes, parts: parts(), volumes: map[string]string{}}
	raw.Nodes = nil
	r.resolve(root)
	r.validate()
	kubernetes.Check(c, r.spec)
	for _, check := range checks {
		check(r.spec, report{c, r.spec})
	}
	kubernetes.Reword(c, r.spec)
	if err := c.Err(); err != nil {
		return nil, err
	}
	r.places()
	r.spec.Warnings = decode.SortProblems(c.Warnings)
	r.spec.Defaults, r.spec.Pools = spec.Shape{}, nil
	return r.spec, nil
}

// places notes where values are that an error may name when they are used.
func (r *resolver) places() {
	raw := &r.spec.Proxmox
	at := map[string]any{
		"proxmox.endpoint": &raw.Endpoint, "proxmox.token": &raw.TokenID, "proxmox.secret": &raw.TokenSecret, "proxmox.fingerprint": &raw.Fingerprint,
		"proxmox.ca": &raw.CAFile, "vip": &r.spec.K3s.VIP, "k3s.version": &r.spec.K3s.Version,
	}
	for _, n := range r.machines() {
		at["node "+n.Name] = nodesSection{r}.addressPlace(n)
		at["node "+n.Name+" 6"] = &n.Address6
		for i := range n.Networks {
			at["node "+n.Name+" "+n.Networks[i].Name] = &n.Networks[i].Address
		}
	}
	if nfs := r.spec.Platform.Storage.NFS; nfs != nil && nfs.VM != nil {
		at["node "+nfs.VM.Name] = &nfs.VM.Address
	}
	if lb := r.spec.Platform.LB; lb != nil {
		for i, p := range lb.Addresses {
			at["pool "+p.String()] = &lb.Addresses[i]
		}
	}
	r.spec.Places = map[string]string{}
	for key, p := range at {
		if r.IsSet(p) {
			r.spec.Places[key] = r.Location(p)
		}
	}
}

func (r nodesSection) addressPlace(n plannedNode) any {
	if n.External {
		return &n.SSH
	}
	return &n.Address
}

// resolver turns the raw file into the Spec, and then checks the whole.
type resolver struct {
	*decode.Checker
	spec    *spec.Spec
	nodes   []plannedNode // like spec.Nodes, in the same order
	vms     []plannedNode // like spec.VMs
	entries []spec.Node   // those of the file under nodes
	parts   []part

	volumes map[string]string // existing ones, and the nodes that get them

	declared []spec.Host // those of the file, with their places
	disabled []string    // components of K3s that are not there; with the places of k3s.disable, unless bare
	bare     bool        // none of them is there, whatever k3s.disable says

	root    bool // proxmox.user is root@pam
	badRole bool // some node has an unknown role, so servers cannot be counted
}

// plannedNode is a node, and what the file says of its address.
type plannedNode struct {
	*spec.Node
	address netip.Addr // as it is written
	short   bool       // its pool has too few addresses, which is reported already
	short6  bool       // the same of addresses6
}

func (r *resolver) resolve(root *yamlnode.Node) {
	r.name()
	r.patience()
	mirrorSection{r}.mirror()
	proxmoxSection{r}.proxmox()
	harvesterSection{r}.harvester()
	labSection{r}.labGuests()
	imageSection{r}.image()
	harvesterSection{r}.image()
	networkSection{r}.network(&r.spec.Network)
	guestSection{r}.access()
	guestSection{r}.guest()
	k3sSection{r}.kubernetes()
	nvidiaSection{r}.gpuStack()
	nodesSection{r}.makeNodes(root)
	nodesSection{r}.makeVMs(root)
	rangesSection{r}.complete()
	proxmoxSection{r}.hosts()
	r.finish()
	partsSection{r}.platform()
}

// clusterName is stricter than a DNS label: the name is also a tag, and the start of the names
// of resource mappings, which must start with a letter.
const clusterName = `^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`

func (r *resolver) name() {
	switch {
	case r.spec.Name == "":
		r.Wrong(&r.spec.Name, "the cluster has no name", "write name: and a short name, e.g. name: homelab")
	case !decode.Matches(clusterName, r.spec.Name):
		r.Wrong(&r.spec.Name, fmt.Sprintf("%q cannot be a cluster's name", r.spec.Name), "write at most 32 lower-case letters, digits and hyphens, beginning with a letter")
	}
}

// Limits of patience: below 1 healthy hosts would fail, and above 100 homelab would wait for
// days for a first boot that never ends.
const (
	minPatience = 1
	maxPatience = 100
)

func (r *resolver) patience() {
	if p := r.spec.Patience; r.IsSet(&r.spec.Patience) && (p < minPatience || p > maxPatience) {
		r.Wrong(&r.spec.Patience, fmt.Sprintf("patience cannot be %d", p),
			fmt.Sprintf("write how many times longer than usual a step may take, %d to %d: 3 for a slow host", minPatience, maxPatience))
	}
}

// finish sets the defaults that depend on the nodes.
func (r *resolver) finish() {
	slices.SortStableFunc(r.nodes, func(a, b plannedNode) int { return cmp.Compare(rank(a.Role), rank(b.Role)) })
	gpus := false
	for _, n := range r.nodes {
		kubernetes.CheckNode(r.Checker, r.spec, n.Node)
		r.spec.Nodes = append(r.spec.Nodes, *n.Node)
		gpus = gpus || n.HasGPUs()
	}
	if r.spec.NVIDIA.Stack == "" {
		r.spec.NVIDIA.Stack = spec.StackNone
		if gpus {
			r.spec.NVIDIA.Stack = spec.StackDevicePlugin
		}
	}
	if r.spec.NVIDIA.DriverMode == "" {
		r.spec.NVIDIA.DriverMode = spec.DriverNone
		if gpus {
			r.spec.NVIDIA.DriverMode = spec.DriverPrebuilt
		}
	}
	nvidiaSection{r}.driverOfDistro()
	operatorSection{r}.operatorDistro()
	r.templateStorage()
}

// templateStorage sets each host's template storage to that of its first node's boot disk,
// unless the file names another.
func (r *resolver) templateStorage() {
	asked := r.spec.Image.TemplateStorage
	r.spec.TemplateAsked = asked != ""
	for i := range r.spec.Proxmox.Hosts {
		h := &r.spec.Proxmox.Hosts[i]
		h.TemplateStorage = cmp.Or(asked, r.defaultStorage())
	}
	r.spec.TemplatesBeside()
	if asked == "" {
		r.spec.Image.TemplateStorage = r.defaultStorage()
		if len(r.spec.Nodes) > 0 && r.spec.Nodes[0].OnProxmox() {
			r.spec.Image.TemplateStorage = r.spec.Nodes[0].OSDisk.Storage
		}
	}
}

func rank(role spec.Role) int {
	if role == spec.Server {
		return 0
	}
	return 1
}

// warnUnused warns of valid settings that have no effect, on some nodes or at all.
func (r *resolver) warnUnused() {
	px := &r.spec.Proxmox
	needed := slices.ContainsFunc(r.machines(), func(n plannedNode) bool { return n.Hugepages+n.Affinity != "" })
	if r.IsSet(&px.User) && !needed {
		r.Warn(&px.User, "user and password are needed only for hugepages and affinity, and no node has those", "remove user and password; the token does everything")
	}
	for i := range r.entries {
		e := &r.entries[i]
		if r.IsSet(&e.SSH) && len(e.Networks) > 0 {
			r.Warn(&e.Networks, e.Name+" is external, so this has no effect on it", "set up its networks by hand on that machine")
		}
		if r.IsSet(&e.SSH) && len(e.Devices) > 0 {
			r.Warn(&e.Devices, e.Name+" is external, so this has no effect on it", "it has its own devices anyway")
		}
	}
	if a := &r.spec.Access; r.IsSet(&a.SudoPassword) && !slices.ContainsFunc(r.nodes, func(n plannedNode) bool { return n.SudoPassword == a.SudoPassword }) {
		r.Warn(&a.SudoPassword, "no machine of the file has it: it is for external machines whose user is not root, without a sudoPassword of their own", "remove sudoPassword")
	}
	guest := &r.spec.Guest
	for _, n := range r.nodes {
		if !n.External {
			continue
		}
		for _, at := range []any{&guest.Packages, &guest.Sysctls, &guest.KernelModules, &guest.Files, &r.spec.Access.PasswordHash} {
			if r.IsSet(at) {
				r.Warn(at, fmt.Sprintf("%s is external, so this has no effect on it", n.Name), "set it up by hand on that machine")
			}
		}
	}
}
