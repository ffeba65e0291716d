package clusterfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Load reads a cluster file. If it has mistakes, the error is [spec.Problems], with all of
// them. Load does not read secrets.
func Load(path string) (*spec.Spec, error) {
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: name another with -spec=FILE, or let homelab cluster:init make one", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster file: %w", err)
	}
	return Parse(path, data)
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
func Parse(filename string, data []byte) (*spec.Spec, error) {
	c := decode.NewChecker(filename)
	root := decode.ReadTree(c, data)
	if root == nil {
		return nil, c.Err()
	}
	return resolve(c, root, filename, c.Dir)
}

// resolve makes a Spec of a tree.
func resolve(c *decode.Checker, root *yamlnode.Node, file, dir string) (*spec.Spec, error) {
	raw := &spec.Spec{}
	raw.File, raw.Dir = file, dir
	c.DecodeTree(root, raw, "")
	if c.Unclear {
		return nil, c.Err() // what else is wrong depends on which is meant
	}
	r := &resolver{Checker: c, spec: raw, entries: raw.Nodes}
	raw.Nodes = nil
	r.resolve(root)
	r.validate()
	if err := c.Err(); err != nil {
		return nil, err
	}
	r.places()
	r.spec.Warnings = decode.Sorted(c.Warnings)
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
	for _, n := range r.nodes {
		at["node "+n.Name] = r.addressPlace(n)
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
			r.spec.Places[key] = r.Where(p)
		}
	}
}

// resolver turns the raw file into the Spec, and then checks the whole.
type resolver struct {
	*decode.Checker
	spec    *spec.Spec
	nodes   []plannedNode // like spec.Nodes, in the same order
	entries []spec.Node   // those of the file under nodes

	declared []spec.Host // those of the file, with their places
	disabled []string    // k3s.disable of the file, with its places

	root    bool // proxmox.user is root@pam
	badRole bool // some node has an unknown role, so servers cannot be counted
}

// plannedNode is a node, and what the file says of its address.
type plannedNode struct {
	*spec.Node
	address netip.Addr // as it is written
	short   bool       // its pool has too few addresses, which is reported already
}

func (r *resolver) resolve(root *yamlnode.Node) {
	r.name()
	r.patience()
	r.proxmox()
	r.labGuests()
	r.image()
	r.network(&r.spec.Network)
	r.access()
	r.guest()
	r.kubernetes()
	r.gpuStack()
	r.makeNodes(root)
	r.clusterCIDRs()
	r.hosts()
	r.finish()
	r.platform()
}

// clusterName is stricter than a DNS label: the name is also a tag, and the start of the names
// of resource mappings, which must start with a letter.
const clusterName = `^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`

func (r *resolver) name() {
	switch {
	case r.spec.Name == "":
		r.Wrong(&r.spec.Name, "the cluster has no name", "write name: and a short name, e.g. name: homelab")
	case !matches(clusterName, r.spec.Name):
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
		r.spec.Nodes = append(r.spec.Nodes, *n.Node)
		gpus = gpus || n.GPUs.Count > 0
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
	r.driverOfDistro()
	r.operatorDistro()
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
		if len(r.spec.Nodes) > 0 && !r.spec.Nodes[0].External {
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

// path joins a relative path to the file's folder; ~/ is the home folder.
func (r *resolver) path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(r.spec.Dir, p)
}

// existing reports a missing file or folder.
func (r *resolver) existing(at any, path string, folder bool) string {
	path = r.path(path)
	info, err := os.Stat(path)
	switch {
	case path == "":
	case errors.Is(err, fs.ErrNotExist):
		r.Wrong(at, fmt.Sprintf("%s does not exist", path), "correct the path; relative ones start in the folder of this file")
	case err != nil:
		r.Wrong(at, fmt.Sprintf("%s cannot be read: %v", path, errors.Unwrap(err)), "correct the path, or let this user read it")
	case folder && !info.IsDir():
		r.Wrong(at, path+" is not a folder", "name the folder with the files")
	case !folder && !info.Mode().IsRegular():
		r.Wrong(at, path+" is not a file", "name a file")
	}
	return path
}

// or returns what p points to, or the default when it is nil.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
