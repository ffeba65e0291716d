package importer

import (
	"errors"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

// settle drops what package clusterfile refuses, and tells it, until only what is missing is left.
func (d completion) settle(out string) spec.Problems {
	const rounds = 40
	for range rounds {
		_, err := clusterfile.Parse(out, []byte(d.text()), platform.Check)
		problems, ok := errors.AsType[spec.Problems](err)
		if err == nil {
			return nil
		}
		if !ok {
			return spec.Problems{{File: out, Line: 1, Column: 1, What: err.Error()}}
		}
		dropped := false
		lines := d.lines()
		for _, p := range problems {
			if p.Line < 1 || p.Line > len(lines) || lines[p.Line-1] == "" {
				continue
			}
			key := lines[p.Line-1]
			n := d.root.find(key)
			if n == nil || len(n.places) == 0 && !optional(key) || essential(key) {
				continue
			}
			d.root.drop(key)
			d.prune(key)
			d.loseKey(key, "cluster.yaml refuses it: "+p.What+suffix(p.Cure))
			dropped = true
		}
		if !dropped {
			return problems
		}
	}
	return nil
}

func suffix(cure string) string {
	if cure == "" {
		return ""
	}
	return "; " + cure
}

// essential are keys without which the rest makes no sense: the problem is told instead.
func essential(key string) bool {
	return strings.HasSuffix(key, ".address") || strings.HasSuffix(key, ".external") || key == "name" || key == "network.prefix" || key == "network.gateway" || key == "proxmox.endpoint" ||
		strings.Count(key, ".") == 1 && strings.HasPrefix(key, "nodes.")
}

// optional are sections that can go as a whole.
func optional(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	return section != "name" && section != "proxmox" && section != "network" && section != "pools" && section != "nodes" && section != "defaults"
}

// prune drops sections that have become empty.
func (d completion) prune(key string) {
	for at := strings.LastIndexByte(key, '.'); at >= 0; at = strings.LastIndexByte(key, '.') {
		key = key[:at]
		if n := d.root.find(key); n == nil || len(n.kids) > 0 || strings.HasPrefix(key, "nodes.") {
			return
		}
		d.root.drop(key)
	}
}

// keepTrue takes keys from settings that the file does not have after all: a pool without machines, a network without
// addresses.
func (d completion) keepTrue() {
	for _, s := range d.settings {
		had := len(s.Keys)
		s.Keys = slices.DeleteFunc(s.Keys, func(k string) bool { return d.root.find(k) == nil })
		if len(s.Keys) == 0 && had > 0 {
			s.Fate, s.Reason, s.Env = NoPlace, "no input has the rest of what it belongs to", ""
		}
	}
}
