package console

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// everywhere is the part for steps that do not belong to a single node.
const everywhere = "cluster"

// Owner splits a step's name into the node, host or part that it belongs to and what it does
// there, in words for people: vm/wk-gpu1 is the vm of wk-gpu1. Names without a slash, and addresses,
// belong to "cluster".
func Owner(step string) (name, what string) {
	what, name, ok := strings.Cut(step, "/")
	if !ok {
		return everywhere, step
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return everywhere, what + " " + name
	}
	return name, stepKindName(what)
}

// stepKindName is the name of a kind of step for people.
func stepKindName(what string) string {
	switch what {
	case "guest":
		return "first boot"
	case "gpus":
		return "GPUs"
	case "k3s":
		return "K3s"
	}
	return what
}

// partsOf lists the parts in the order of their first steps, the cluster's last.
func partsOf(steps []string) []string {
	var names []string
	for _, s := range steps {
		if name, _ := Owner(s); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if i := slices.Index(names, everywhere); i >= 0 {
		names = append(slices.Delete(names, i, i+1), everywhere)
	}
	return names
}

// shortList lists names; a long list is shortened to its ends.
func shortList(names []string) string {
	const most, head = 8, 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s … %s (%d)", strings.Join(names[:head], ", "), names[len(names)-1], len(names))
}

// group is a value with all the names that share it.
type group[T any] struct {
	names []string
	what  T
}

// fold groups names by equal values, in the order of first appearance.
func fold[T any](all []group[T], words func(T) string) []group[T] {
	var out []group[T]
	at := map[string]int{}
	for _, x := range all {
		key := words(x.what)
		if i, ok := at[key]; ok {
			out[i].names = append(out[i].names, x.names...)
			continue
		}
		at[key] = len(out)
		out = append(out, group[T]{slices.Clone(x.names), x.what})
	}
	return out
}
