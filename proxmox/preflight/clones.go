package preflight

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// checkClones checks whether the missing machines can be cloned to their storages. A whole
// copy is fine; it counts among the disks, and the finding says why.
func checkClones(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	var refused *api.Error
	switch err := seen.clones.err; {
	case errors.As(err, &refused):
		return []Finding{unobservedFinding(h.Name, err)}
	case err != nil:
		evidence, cure, _ := strings.Cut(err.Error(), "\n")
		return []Finding{{Subject: h.Name, Verdict: Error, Evidence: evidence, Cure: strings.TrimSpace(cure), Err: err}}
	}
	alike, order := map[proxmox.Cloning][]string{}, []proxmox.Cloning{}
	for _, name := range slices.Sorted(maps.Keys(seen.clones.is)) {
		c := seen.clones.is[name]
		if c.Mode == proxmox.NoClone && !seen.acceptsDisk(w, name) {
			continue // the checks of the storages say why
		}
		if alike[c] == nil {
			order = append(order, c)
		}
		alike[c] = append(alike[c], name)
	}
	var out []Finding
	for _, c := range order {
		names := firstNames(alike[c])
		switch {
		case c.Mode == proxmox.NoClone:
			out = append(out, errorf(h.Name, c.Cure, "no clone on %s can be made of the template, for %s: %s", h.Name, names, c.Reason))
		case c.Mode == proxmox.FullClone && c.Size > 0:
			out = append(out, Finding{Subject: h.Name, Verdict: OK,
				Evidence: fmt.Sprintf("on %s the template is copied as a whole, %s each time, for %s: %s", h.Name, c.Size.Approximate(), names,
					c.Reason)})
		case c.Mode == proxmox.FullClone:
			out = append(out, Finding{Subject: h.Name, Verdict: OK,
				Evidence: fmt.Sprintf("on %s the template is copied as a whole for %s: %s", h.Name, names, c.Reason)})
		}
	}
	return out
}

// acceptsDisk reports whether the storage of a VM's first disk could have it.
func (h *hostObservation) acceptsDisk(w *Requirements, name string) bool {
	i := slices.IndexFunc(w.VMs, func(vm VM) bool { return vm.Name == name })
	if i < 0 || len(w.VMs[i].Disks) == 0 {
		return true
	}
	st := h.storage(w.VMs[i].Disks[0].Storage)
	if st == nil || !st.Active {
		return false
	}
	why, _ := st.DiskProblem()
	return why == ""
}
