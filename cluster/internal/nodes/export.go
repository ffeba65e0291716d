package nodes

import (
	"bytes"
	"context"
	_ "embed" // export.sh
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed export.sh
var exportScript string

// exportOptions are the options of every export. The driver runs as root and creates folders
// for the pods' users, hence no_root_squash. Without its data disk (mp) nothing is exported,
// so that no client writes to the system disk. Source: exports(5), nfs-utils 2.6.
const exportOptions = "rw,sync,no_subtree_check,no_root_squash,mp=" + spec.ExportRoot

// exports are the folders that the NFS server exports, with their clients.
type exports struct {
	paths []string
	allow []string
}

// exportsOf returns the volumes' folders, and the folders of shares that are not inside them.
func exportsOf(n *spec.NFS) exports {
	e := exports{paths: []string{n.Export}}
	add := func(server, path string) {
		if server == "" && !slices.ContainsFunc(e.paths, func(p string) bool { return spec.IsWithin(path, p) }) {
			e.paths = append(e.paths, path)
		}
	}
	for _, c := range n.Classes {
		add(c.Server, c.Export)
	}
	for _, s := range n.Shares {
		add(s.Server, s.Export)
	}
	for _, p := range n.VM.Allow {
		e.allow = append(e.allow, p.Masked().String())
	}
	return e
}

// pairs are the lines of the kernel's export table: folder and network.
func (e exports) pairs() []string {
	var out []string
	for _, path := range e.paths {
		for _, client := range e.allow {
			out = append(out, path+" "+client)
		}
	}
	return out
}

// file is the exports file, which the server reads at each start.
func (e exports) file() string {
	var b strings.Builder
	for _, pair := range e.pairs() {
		fmt.Fprintf(&b, "%s(%s)\n", pair, exportOptions)
	}
	return b.String()
}

// exportsSeen is what an NFS server exports.
type exportsSeen struct {
	service string // active, or another state that systemd reports
	file    string // the exports file that homelab wrote
	table   []string
}

// ExportStep keeps the exports of the NFS server as in the file.
func (ns *Nodes) ExportStep(n spec.Node) *converge.Resource[exportsSeen] {
	want := exportsOf(ns.Spec.Platform.Storage.NFS)
	return &converge.Resource[exportsSeen]{
		ID: "export/" + n.Name,
		Observe: func(ctx context.Context) (exportsSeen, error) {
			var out bytes.Buffer
			if err := ns.Root(n.Name).Run(ctx, remote.Cmd{Args: exportArgs("look"), Stdout: &out}); err != nil {
				return exportsSeen{}, err
			}
			return parseExports(out.String())
		},
		Diff:  want.diff,
		Costs: want.costs(n.Name),
		Apply: func(ctx context.Context, _ exportsSeen) error {
			args := append(exportArgs("make"), want.paths...)
			return ns.Root(n.Name).Run(ctx, remote.Cmd{Args: args, Stdin: strings.NewReader(want.file())})
		},
		Settle: diskTime,
		Hint:   "sudo exportfs -v and journalctl -u nfs-server on " + n.Name + " show more; homelab does not manage /etc/exports there, and it must not name the same folders",
	}
}

func exportArgs(verb string) []string { return []string{"sh", "-c", exportScript, "export.sh", verb} }

// parseExports reads the output of export.sh look.
func parseExports(text string) (exportsSeen, error) {
	service, rest, ok := strings.Cut(text, "\n@@ file\n")
	file, table, also := strings.Cut(rest, "@@ table\n")
	if !ok || !also {
		return exportsSeen{}, fmt.Errorf("exports of a machine: unexpected line %q", text)
	}
	return exportsSeen{service: service, file: file, table: parseTable(table)}, nil
}

// parseTable reads the output of exportfs -v: a folder, followed by each network with its
// options. A long folder name has a line of its own; the network is then on the next line.
func parseTable(text string) []string {
	var out []string
	path := ""
	for _, word := range strings.Fields(text) {
		if strings.HasPrefix(word, "/") {
			path = word
			continue
		}
		client, _, _ := strings.Cut(word, "(")
		out = append(out, path+" "+client)
	}
	return out
}

func (e exports) diff(have exportsSeen) converge.Diff {
	var d converge.Diff
	if have.service != "active" {
		d = append(d, converge.Field{Path: "nfs-server", Have: have.service, Want: "active", Effect: converge.Create})
	}
	if have.file != e.file() {
		d = append(d, converge.Field{Path: "exports", Have: oneLine(have.file), Want: oneLine(e.file()), Effect: converge.Update})
	}
	pairs := e.pairs()
	for _, want := range pairs {
		if !slices.Contains(have.table, want) {
			d = append(d, converge.Field{Path: "export", Want: want, Effect: converge.Create})
		}
	}
	for _, pair := range have.table {
		path, _, _ := strings.Cut(pair, " ")
		if slices.Contains(e.paths, path) && !slices.Contains(pairs, pair) {
			d = append(d, converge.Field{Path: "export", Have: pair, Effect: converge.Remove})
		}
	}
	return d
}

// costs are the networks that lose access to a folder. Clients there lose it at once, and
// programs that read or write it hang or fail.
func (e exports) costs(server string) func(context.Context, exportsSeen, converge.Diff) []converge.Cost {
	return func(_ context.Context, have exportsSeen, _ converge.Diff) []converge.Cost {
		ours := map[string]bool{}
		for line := range strings.Lines(have.file) {
			pair, _, _ := strings.Cut(line, "(")
			ours[pair] = true
		}
		var out []converge.Cost
		for _, pair := range have.table {
			path, client, _ := strings.Cut(pair, " ")
			if (ours[pair] || slices.Contains(e.paths, path)) && !e.serves(path, client) {
				out = append(out, converge.Cost{
					Machine: server + ":" + path + " for " + client, Kind: converge.CostStop,
					Reason: "no longer exported to it: its clients lose access, until it is exported again",
				})
			}
		}
		return out
	}
}

// serves reports whether a folder is exported to an entire network.
func (e exports) serves(path, client string) bool {
	network, err := netip.ParsePrefix(client)
	if err != nil || !slices.ContainsFunc(e.paths, func(p string) bool { return spec.IsWithin(path, p) }) {
		return false
	}
	return slices.ContainsFunc(e.allow, func(a string) bool {
		allowed, err := netip.ParsePrefix(a)
		return err == nil && allowed.Bits() <= network.Bits() && allowed.Contains(network.Addr())
	})
}

// oneLine returns an exports file in one line.
func oneLine(file string) string {
	var out []string
	for line := range strings.Lines(file) {
		pair, _, _ := strings.Cut(line, "(")
		out = append(out, pair)
	}
	return strings.Join(out, ", ")
}
