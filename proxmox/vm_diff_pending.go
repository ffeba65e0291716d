package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
)

// inEffect returns a running VM with the values in effect, without pending ones.
func (v *VM) inEffect() *VM {
	out := &VM{Host: v.Host, VMID: v.VMID, Owner: v.Owner, Pool: v.Pool, Running: v.Running, Unfinished: v.Unfinished, config: maps.Clone(v.config)}
	for _, p := range v.Pending {
		if p.Have == "" {
			delete(out.config, p.Key)
		} else {
			out.config[p.Key] = p.Have
		}
	}
	out.read()
	return out
}

// isPending reports whether a value of a key is pending until the VM's next start.
func (v *VM) isPending(key string) bool {
	return slices.ContainsFunc(v.Pending, func(p PendingKey) bool { return key != "" && p.Key == key })
}

// pendingChanges returns the changes that s wants and that are set but pending until the VM's next start.
// Other pending changes belong to another owner and are not a reason for a restart.
func (s VMSpec) pendingChanges(vm *VM) []change {
	if len(vm.Pending) == 0 || vm.config == nil { // nil for a VM that was not read
		return nil
	}
	wrong := s.changes(vm)
	return slices.DeleteFunc(s.changes(vm.inEffect()), func(ch change) bool {
		return !vm.isPending(ch.Key) || slices.ContainsFunc(wrong, func(w change) bool { return w.Field.Path == ch.Field.Path })
	})
}

// fields returns the diff of a VM with pending values. Pending values do not count as the VM's own,
// and the diff says who set them.
func (s VMSpec) fields(vm *VM) converge.Diff {
	wrong := s.changes(vm)
	out := fieldsOf(wrong)
	if len(vm.Pending) == 0 || vm.config == nil {
		return out
	}
	var now []change
	if slices.ContainsFunc(wrong, func(ch change) bool { return vm.isPending(ch.Key) }) {
		now = s.changes(vm.inEffect())
	}
	for i, ch := range wrong {
		if !vm.isPending(ch.Key) {
			continue
		}
		const whose = "was set by somebody else, or for an earlier file, and counts from the VM's next start"
		f := &out[i]
		if n := slices.IndexFunc(now, func(n change) bool { return n.Field.Path == ch.Field.Path }); n >= 0 {
			f.Note = fmt.Sprintf("%s waits: it %s", f.Have, whose)
			f.Have = now[n].Field.Have
		} else {
			f.Note = fmt.Sprintf("the VM runs with %s; %s %s", f.Want, f.Have, whose)
			f.Have += ", pending"
		}
	}
	for _, ch := range s.pendingChanges(vm) {
		ch.Field.Effect, ch.Field.Note = converge.Restart, "set already; it counts from the VM's next start"
		out = append(out, ch.Field)
	}
	return s.withPending(vm, out)
}

// withPending adds to the diff of a VM that is to be restarted what else the restart brings into
// effect.
func (s VMSpec) withPending(vm *VM, d converge.Diff) converge.Diff {
	i := slices.IndexFunc(d, func(f converge.Field) bool { return f.Effect == converge.Restart })
	if i < 0 {
		return d
	}
	managed := append(s.changes(vm), s.pendingChanges(vm)...)
	var others []string
	for _, p := range vm.Pending {
		if !slices.ContainsFunc(managed, func(ch change) bool { return ch.Key == p.Key }) {
			others = append(others, fmt.Sprintf("%s: %s → %s", p.Key, orNone(p.Have), orNone(p.Want)))
		}
	}
	if len(others) > 0 {
		d[i].Note = strings.TrimPrefix(d[i].Note+"; the restart also brings what somebody else has set: "+strings.Join(others, ", "), "; ")
	}
	return d
}
