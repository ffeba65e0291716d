package importer

import (
	"slices"
	"strings"
)

// order is that of the file's sections.
func order() []string {
	return []string{"name", "proxmox", "image", "network", "ssh", "guest", "k3s", "nvidia", "storage", "loadBalancer", "ingress", "rancher", "defaults", "pools", "nodes",
		"endpoint", "token", "secret", "insecure", "host"}
}

// text is the file.
func (d *draft) text() string {
	text, _ := d.write()
	return text
}

// lines are the keys of the file's lines; empty for others.
func (d *draft) lines() []string {
	_, keys := d.write()
	return keys
}

func (d *draft) write() (string, []string) {
	var w writer
	w.line("", "# Written by cluster:import, and yours from now on. Each value has the place that it comes from.")
	byOrder := func(a, b *node) int { return slices.Index(order(), a.name) - slices.Index(order(), b.name) }
	kids := slices.Clone(d.root.kids)
	slices.SortStableFunc(kids, byOrder)
	if p := d.root.kid("proxmox"); p != nil {
		slices.SortStableFunc(p.kids, byOrder)
	}
	for i, k := range kids {
		if len(k.kids) > 0 && i > 0 {
			w.line("", "")
		}
		w.node(k, "", 0)
	}
	return strings.Join(w.text, "\n") + "\n", w.keys
}

type writer struct{ text, keys []string }

func (w *writer) line(key, text string) {
	w.text, w.keys = append(w.text, text), append(w.keys, key)
}

func (w *writer) node(n *node, prefix string, depth int) {
	key := prefix + n.name
	text := strings.Repeat("  ", depth) + scalar(n.name) + ":"
	if n.yaml != "" {
		text += " " + n.yaml
	} else if len(n.kids) == 0 {
		text += " {}"
	}
	remarks := slices.Clone(n.places)
	const most = 3
	if len(remarks) > most {
		remarks = append(remarks[:most], "…")
	}
	if n.remark != "" {
		remarks = append(remarks, n.remark)
	}
	if len(remarks) > 0 {
		text += " # " + printableName(strings.Join(remarks, ", "))
	}
	w.line(key, text)
	for _, k := range n.kids {
		w.node(k, key+".", depth+1)
	}
}
