package importer

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/cps-gpu/homelab/internal/limit"
)

// sources is everything that was read.
type sources struct {
	files     []string
	module    module
	env       []field
	inventory inventory
	plain     []field // of files that are settings alone
}

const (
	maxFiles = 400
	maxDepth = 5
	maxFile  = 1 << 20
)

// skipped are folders that have no inputs of a root module or of an inventory.
var skipped = regexp.MustCompile(`^(\..*|modules|roles|playbooks|node_modules|templates|collections|artifacts|charts|kubernetes|k8s|docs?|tests?)$`)

// example is a file that shows what to write.
var example = regexp.MustCompile(`(?i)(\.example$|\.sample|\.Example$|^example\.|\.sample$)`)

// read reads a file, with the files beside it that it belongs to, or a folder.
func read(from string) (*sources, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	dir, names := from, []string(nil)
	if info.IsDir() {
		names, err = candidates(from)
	} else {
		dir = filepath.Dir(from)
		names, dir, err = filesBeside(dir, filepath.Base(from))
	}
	if err != nil {
		return nil, err
	}
	s := &sources{}
	var vars []string
	for _, name := range names {
		data, err := limit.File(filepath.Join(dir, name), maxFile)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, ".tfvars") {
			vars = append(vars, name) // after the defaults of variables
			continue
		}
		if err := s.add(name, data, !info.IsDir() && name == names[0]); err != nil {
			return nil, err
		}
	}
	if err := s.addVariables(dir, vars); err != nil {
		return nil, err
	}
	if len(s.files) == 0 {
		return nil, &ReadError{from, "nothing in it is an input that homelab reads",
			"name a folder or a file with variables of OpenTofu (*.tfvars, variables.tf), an inventory of Ansible with its group_vars, a .env, or the nodes.yaml of a template"}
	}
	s.module.evaluate()
	return s, nil
}

// candidates are the files of a folder that may be inputs.
func candidates(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && name != "." && (skipped.MatchString(d.Name()) || strings.Count(name, string(filepath.Separator)) >= maxDepth):
			return fs.SkipDir
		case d.Type().IsRegular() && isCandidate(name) && !example.MatchString(d.Name()):
			out = append(out, filepath.ToSlash(name))
		}
		if len(out) > maxFiles {
			return &ReadError{dir, fmt.Sprintf("more than %d files may be inputs", maxFiles), "name the folder that has them"}
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

func isCandidate(name string) bool {
	base := filepath.Base(name)
	switch filepath.Ext(base) {
	case ".tf", ".tfvars", ".env", ".ini", ".yml", ".yaml":
		return true
	}
	return base == "hosts" || base == "inventory"
}

// filesBeside are the files that belong to one: variables of its module, which may be in the folder above, and group_vars.
func filesBeside(dir, name string) (names []string, root string, err error) {
	names, root = []string{name}, dir
	if filepath.Ext(name) == ".tfvars" {
		at, prefix := dir, ""
		if has, _ := filepath.Glob(filepath.Join(dir, "*.tf")); len(has) == 0 {
			at, prefix = filepath.Dir(dir), filepath.Base(dir)+"/"
		}
		root, names[0] = at, prefix+name
		all, err := filepath.Glob(filepath.Join(at, "*.tf"))
		for _, f := range all {
			names = append(names, filepath.Base(f))
		}
		return names, root, err
	}
	all, err := candidates(dir)
	for _, f := range all {
		top, _, _ := strings.Cut(f, "/")
		if f != name && (top == "group_vars" || top == "host_vars" || f == ".env" || f == "nodes.yaml" || f == "cluster.yaml" || f == "config.yaml") {
			names = append(names, f)
		}
	}
	return names, root, err
}

// add recognises a file by its content. asked is one that the user names: it must be an input.
func (s *sources) add(name string, data []byte, asked bool) error {
	base := filepath.Base(name)
	switch ext := filepath.Ext(base); {
	case ext == ".tf":
		body, err := parseHCL(name, data)
		if err != nil {
			return err
		}
		s.module.read(name, body)
	case ext == ".env" || base == ".env":
		s.env = append(s.env, parseEnv(name, data)...)
	case ext == ".yml" || ext == ".yaml":
		return s.addYAML(name, data, asked)
	default:
		inv, err := parseINI(name, data)
		if err != nil {
			return ignoreUnless(asked, err)
		}
		s.inventory.add(inv)
	}
	s.files = append(s.files, name)
	return nil
}

func ignoreUnless(asked bool, err error) error {
	if asked {
		return err
	}
	return nil
}

var varsFile = regexp.MustCompile(`(^|/)(group_vars|host_vars)/([^/]+?)(?:\.ya?ml)?(?:/.*)?$`)

// templates are keys of the files that templates of clusters are filled from.
func templates() []string {
	return []string{"node_cidr", "cluster_api_addr", "nodes_config", "nodes", "node_inventory", "bootstrap_nodes"}
}

func (s *sources) addYAML(name string, data []byte, asked bool) error {
	m := varsFile.FindStringSubmatch(name)
	v, err := parseYAML(name, data)
	if err != nil {
		return ignoreUnless(asked || m != nil, err)
	}
	switch {
	case v.kind != object:
		return ignoreUnless(asked, &ReadError{name, "no file with settings", "name an inventory, variables or nodes"})
	case m != nil && m[2] == "host_vars":
		h := s.inventory.host(m[3], place{name, 1})
		h.vars = append(h.vars, v.fields...)
	case m != nil:
		g := s.inventory.group(m[3])
		g.vars = append(g.vars, v.fields...)
	case isInventory(v):
		s.inventory.read(v)
	case slices.ContainsFunc(templates(), func(key string) bool { _, ok := v.field(key); return ok }) && !isCluster(v):
		s.plain = append(s.plain, v.fields...)
	default:
		return ignoreUnless(asked, &ReadError{name, "no input that homelab knows", "name an inventory of Ansible, its folder with group_vars, or nodes.yaml and cluster.yaml of a template"})
	}
	s.files = append(s.files, name)
	return nil
}

// isCluster reports whether a file is one of homelab's own, or an object of Kubernetes.
func isCluster(v value) bool {
	_, proxmox := v.field("proxmox")
	_, name := v.field("name")
	_, kind := v.field("apiVersion")
	return proxmox && name || kind
}

// addVariables adds files of variables: those that tofu reads by itself, or the only one of a folder.
func (s *sources) addVariables(dir string, names []string) error {
	auto := func(n string) bool {
		b := filepath.Base(n)
		return b == "terraform.tfvars" || strings.HasSuffix(b, ".auto.tfvars")
	}
	var other []string
	for _, n := range names {
		if !auto(n) {
			other = append(other, n)
		}
	}
	if len(other) > 1 {
		return &ReadError{dir, "several files of variables: " + strings.Join(other, ", "), "name the one that counts, -from=" + filepath.Join(dir, other[0])}
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, n := range names {
		data, err := limit.File(filepath.Join(dir, n), maxFile)
		if err != nil {
			return err
		}
		body, err := parseHCL(n, data)
		if err != nil {
			return err
		}
		if err := noBlocks(n, body); err != nil {
			return err
		}
		s.module.assign(tfvars(n, body))
		s.files = append(s.files, n)
	}
	return nil
}

// rank is when tofu reads a file of variables: those on its command line last.
func rank(name string) int {
	switch base := filepath.Base(name); {
	case base == "terraform.tfvars":
		return 0
	case strings.HasSuffix(base, ".auto.tfvars"):
		return 1
	}
	return 2
}

func noBlocks(name string, b *hclsyntax.Body) error {
	if len(b.Blocks) > 0 {
		return &ReadError{place{name, b.Blocks[0].TypeRange.Start.Line}.String(), "a block in a file of variables", "write name = value"}
	}
	return nil
}
