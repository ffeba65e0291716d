package draft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// Warnings says what one should look at before anything is made of the file.
func Warnings(f Inventory, a Answers) []string {
	l, err := f.layout(a)
	if err != nil {
		return nil
	}
	w := &writer{found: f, answers: a, layout: l}
	var out []string
	for _, h := range f.Down {
		out = append(out, fmt.Sprintf("host %s is down and was not checked", h))
	}
	for _, h := range l.hosts {
		if h.Blind {
			out = append(out, fmt.Sprintf("the token may not see the PCI devices of %s, so there is no GPU in the file: "+
				"if there are some, grant it Sys.Audit on / and begin again with -force", h.Name))
		}
		if name, _ := bestStorage(h); name == "" {
			out = append(out, fmt.Sprintf("host %s shows no storage for disks of VMs (content images), or the token may not see it: grant it Datastore.Audit on /storage", h.Name))
		}
		for _, content := range []string{"import", "iso"} {
			if _, cure := w.fileStorage(content); cure != "" && h.Name == l.hosts[0].Name {
				out = append(out, cure)
			}
		}
	}
	if slices.Contains(f.Tags, "homelab-"+a.Name) {
		out = append(out, fmt.Sprintf("there is a cluster %s already: cluster:up would bring its machines to this file", a.Name))
	}
	return out
}

// fileStorage finds the storage for files of a kind that all hosts have, and what is
// to be done where there is none.
func (w *writer) fileStorage(content string) (name, cure string) {
	takes := func(h Host, storage string) bool {
		return slices.ContainsFunc(h.Storages, func(s proxmox.Storage) bool {
			return s.Name == storage && s.Active && slices.Contains(s.Content, content)
		})
	}
	candidates := []string{"local"}
	for _, h := range w.layout.hosts {
		for _, s := range h.Storages {
			if storageName(s.Name) {
				candidates = append(candidates, s.Name)
			}
		}
	}
	for _, name := range candidates {
		if !slices.ContainsFunc(w.layout.hosts, func(h Host) bool { return !takes(h, name) }) {
			return name, ""
		}
	}
	h := w.layout.hosts[slices.IndexFunc(w.layout.hosts, func(h Host) bool { return !takes(h, "local") })]
	with := []string{content}
	for _, s := range h.Storages {
		if s.Name == "local" {
			with = append(slices.Clone(s.Content), content)
		}
	}
	return "local", fmt.Sprintf("no storage of %s takes content %q: on the host run: pvesm set local --content %s", h.Name, content, printable.Word(strings.Join(with, ",")))
}
