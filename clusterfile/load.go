package clusterfile

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/clusterfile/internal/written"
	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/spec"
)

// Load reads a cluster file. When anything in it is wrong the error is
// [spec.Problems], all of them at once. Secrets are not read.
func Load(path string) (*spec.Spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cluster file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a cluster file's contents. The name is for messages, and for
// finding the files that data names by relative paths: keys, certificates, sources.
func Parse(filename string, data []byte) (*spec.Spec, error) {
	c := written.NewChecker(filename)
	root := written.ReadTree(c, data)
	if root == nil {
		return nil, c.Err()
	}
	raw := &written.File{}
	c.DecodeTree(root, raw, "")
	r := &resolver{Checker: c, raw: raw, spec: &spec.Spec{File: filename, Dir: filepath.Dir(filename)}}
	r.resolve(root)
	r.validate()
	if err := c.Err(); err != nil {
		return nil, err
	}
	r.spec.Warnings = written.Sorted(c.Warnings)
	return r.spec, nil
}

// resolver turns the raw file into the Spec, and then checks the whole.
type resolver struct {
	*written.Checker
	raw   *written.File
	spec  *spec.Spec
	nodes []plannedNode // as spec.Nodes, in the same order

	badRole bool // some node has a role that there is not, so servers cannot be counted
}

// plannedNode is a node together with what it was made from, for the places.
type plannedNode struct {
	*spec.Node
	raw   *written.Node
	short bool // its pool's addresses do not reach it, which has been said
}

func (r *resolver) resolve(root *yamlnode.Node) {
	r.name()
	r.patience()
	r.proxmox()
	r.labGuests()
	r.image()
	r.spec.Network = r.network(&r.raw.Network)
	r.access()
	r.guest()
	r.kubernetes()
	r.gpuStack()
	r.makeNodes(root)
	r.hosts()
	r.finish()
	r.platform()
}

// clusterName is narrower than a DNS label: it is also a tag, and begins the
// names of resource mappings, which must begin with a letter.
const clusterName = `^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`

func (r *resolver) name() {
	r.spec.Name = r.raw.Name
	switch {
	case r.raw.Name == "":
		r.Wrong(&r.raw.Name, "the cluster has no name", "write name: and a short name, e.g. name: homelab")
	case !matches(clusterName, r.raw.Name):
		r.Wrong(&r.raw.Name, fmt.Sprintf("%q cannot be a cluster's name", r.raw.Name), "write at most 32 lower-case letters, digits and hyphens, beginning with a letter")
	}
}

// Bounds of patience: with less than 1 healthy hosts would fail, and with more than
// 100 a first boot that never ends would be waited for for days.
const (
	minPatience = 1
	maxPatience = 100
)

func (r *resolver) patience() {
	r.spec.Patience = or(r.raw.Patience, 0)
	if p := or(r.raw.Patience, 1); p < minPatience || p > maxPatience {
		r.Wrong(&r.raw.Patience, fmt.Sprintf("patience cannot be %d", p),
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
	r.templateStorage()
}

// templateStorage puts each host's template where its first node boots from,
// unless the file says another place.
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

// existing reports a file or folder that is not there.
func (r *resolver) existing(at any, path string, folder bool) string {
	path = r.path(path)
	info, err := os.Stat(path)
	switch {
	case path == "":
	case err != nil:
		r.Wrong(at, fmt.Sprintf("%s does not exist", path), "correct the path; relative ones begin in the folder of this file")
	case folder && !info.IsDir():
		r.Wrong(at, path+" is not a folder", "name the folder that holds the files")
	case !folder && !info.Mode().IsRegular():
		r.Wrong(at, path+" is not a file", "name a file")
	}
	return path
}

// choice returns the value when it is one of the choices, else the first of them.
func (r *resolver) choice(at *string, name string, choices ...string) string {
	switch {
	case *at == "":
		return choices[0]
	case !slices.Contains(choices, *at):
		r.Wrong(at, fmt.Sprintf("%s cannot be %q", name, *at), written.OrSuggest(*at, choices))
		return choices[0]
	}
	return *at
}

// or returns what p points to, or the default when it is nil.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
