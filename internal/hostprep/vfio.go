package hostprep

import (
	"fmt"
	"slices"
	"strings"
)

const (
	vfioPCI     = "vfio-pci"
	ourModules  = "/etc/modules-load.d/homelab-vfio.conf"
	ourModprobe = "/etc/modprobe.d/homelab-vfio.conf"
	virqfd      = "vfio_virqfd"
)

// vfioModules returns the modules that passthrough needs (pve-docs, qm-pci-passthrough.adoc).
func vfioModules() []string { return []string{"vfio", "vfio_iommu_type1", "vfio_pci"} }

// moduleLists returns the files that list the modules to load at boot (modules-load.d(5)).
func (s State) moduleLists() []File { return s.filesUnder("/etc/modules", "/etc/modules-load.d/") }

// module returns the module name in a line of such a list, as the kernel spells it.
func module(line string) string {
	f := strings.Fields(line)
	if len(f) == 0 || strings.ContainsAny(f[0][:1], "#;") {
		return ""
	}
	return strings.ReplaceAll(f[0], "-", "_")
}

// modules makes the host load vfio at boot, and removes lines that are no longer needed.
func (spec Spec) modules(s State) *Change {
	c := &Change{ID: Modules, What: "modules loaded at boot"}
	undo := "reboot"
	have := map[string]bool{}
	for _, f := range s.moduleLists() {
		var kept []string
		for line := range strings.SplitSeq(f.Text, "\n") {
			have[module(line)] = true
			if module(line) != virqfd || !s.kernelAtLeast(6, 2) {
				kept = append(kept, line)
			}
		}
		if text := strings.Join(kept, "\n"); text != f.Text && f.Path != ourModules {
			c.Files = append(c.Files, FileChange{Path: f.Path, Before: f.Text, After: text, Mode: f.Mode})
			c.Why = append(c.Why, virqfd+" is part of vfio since Linux 6.2; loading it by name is an error at every boot, and some hosts hang.")
			undo = "copy " + f.Path + backupSuffix + " back, " + undo
		}
	}
	missing := slices.DeleteFunc(vfioModules(), func(m string) bool { return have[m] })
	if len(missing) > 0 {
		text := spec.header("remove this file, reboot") + strings.Join(vfioModules(), "\n") + "\n"
		ours := s.file(ourModules)
		c.Files = append(c.Files, FileChange{Path: ourModules, Before: ours.Text, After: text, New: !s.has(ourModules), Ours: true})
		c.Why = append(c.Why, "vfio is the part of Linux that passes devices to VMs.")
		undo = "remove " + ourModules + ", " + undo
	}
	if len(c.Files) == 0 {
		return nil
	}
	c.Why, c.Undo = slices.Compact(c.Why), []string{undo}
	return c
}

// cards makes vfio-pci take the cards before the host's own drivers do. A host whose drivers do not
// hold the cards is left alone, however it does that.
func (spec Spec) cards(s State) *Change {
	held := spec.HeldByHostDriver(s)
	ours := s.file(ourModprobe)
	if len(held) == 0 && ours.Text == "" || len(spec.functions(s)) == 0 {
		return nil
	}
	c := &Change{ID: Cards, What: "cards kept free of the host's drivers"}
	undo := "remove " + ourModprobe + ", run update-initramfs -u -k all, reboot"
	ids := spec.ids(s)
	if f, changed, found := s.foreignIDs(ids); found {
		// The kernel obeys only the last of several such lines, so there must be one.
		ids = nil
		if changed != f.Text {
			c.Files = append(c.Files, FileChange{Path: f.Path, Before: f.Text, After: changed, Mode: f.Mode})
			c.Why = append(c.Why, f.Path+" gives cards to vfio-pci already; the kernel uses only one such line, so ours are added there.")
			undo = "copy " + f.Path + backupSuffix + " back, " + undo
		}
	}
	if text := spec.modprobe(s, ids); text != ours.Text {
		c.Files = append(c.Files, FileChange{Path: ourModprobe, Before: ours.Text, After: text, New: !s.has(ourModprobe), Ours: true})
	}
	if len(c.Files) == 0 {
		return nil
	}
	why := "vfio-pci loads before the drivers that would claim the cards, and holds them, with their audio functions, until a VM needs them. The drivers stay usable for other cards."
	if len(held) > 0 {
		why = "The host's own drivers hold " + deviceNames(held) + ". " + why
	}
	c.Why, c.Undo = append([]string{why}, c.Why...), []string{undo}
	return c
}

// ids returns the models that vfio-pci must take. It matches by model, not by address.
func (spec Spec) ids(s State) []string {
	var ids []string
	for _, d := range spec.functions(s) {
		ids = append(ids, d.ID())
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// modprobe returns homelab's file (modprobe.d(5)). Its softdeps include the drivers that held a
// card when the file was written.
func (spec Spec) modprobe(s State, ids []string) string {
	var b strings.Builder
	b.WriteString(spec.header("remove this file, run update-initramfs -u -k all, reboot"))
	for _, d := range spec.functions(s) {
		fmt.Fprintf(&b, "# %s %s %s\n", d.Address, d.ID(), d.Name)
	}
	if len(ids) > 0 {
		fmt.Fprintf(&b, "options vfio-pci ids=%s\n", strings.Join(ids, ","))
	}
	for _, driver := range spec.competingDrivers(s) {
		fmt.Fprintf(&b, "softdep %s pre: vfio-pci\n", driver)
	}
	return b.String()
}

// competingDrivers returns the drivers that could take a function of the cards before vfio-pci: those for the
// types of the functions, those seen to hold one, and those that homelab's file already names.
func (spec Spec) competingDrivers(s State) []string {
	var out []string
	add := func(all ...string) {
		for _, name := range all {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	for _, d := range spec.functions(s) {
		switch {
		case strings.HasPrefix(d.Class, "03"):
			add("nouveau", "nvidia", "nvidia_current", "nvidiafb", "nvidia_drm") // nvidia_current is Debian's name
		case strings.HasPrefix(d.Class, "0403"):
			add("snd_hda_intel")
		case strings.HasPrefix(d.Class, "0c03"):
			add("xhci_pci")
		case strings.HasPrefix(d.Class, "0c80"):
			add("i2c_nvidia_gpu")
		}
	}
	for line := range strings.SplitSeq(s.file(ourModprobe).Text, "\n") {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "softdep" && f[3] == vfioPCI {
			add(f[1])
		}
	}
	for _, d := range spec.HeldByHostDriver(s) {
		add(strings.ReplaceAll(d.Driver, "-", "_"))
	}
	return out
}

// foreignIDs finds a line that homelab did not write and that gives cards to vfio-pci. It returns
// the file, and the file's text with our ids added to the line.
func (s State) foreignIDs(ids []string) (f File, changed string, found bool) {
	for _, f := range slices.Backward(s.filesUnder("/etc/modprobe.d/")) {
		if f.Path == ourModprobe {
			continue
		}
		all := strings.Split(f.Text, "\n")
		for i, line := range slices.Backward(all) {
			words := strings.Fields(line)
			if len(words) < 3 || words[0] != "options" || strings.ReplaceAll(words[1], "_", "-") != vfioPCI {
				continue
			}
			at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "ids=") })
			if at < 0 {
				continue
			}
			have := strings.Split(strings.TrimPrefix(words[at], "ids="), ",")
			add := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return isListed(have, id) })
			if len(add) > 0 {
				all[i] = strings.Replace(line, words[at], words[at]+","+strings.Join(add, ","), 1)
			}
			return f, strings.Join(all, "\n"), true
		}
	}
	return File{}, "", false
}

// isListed reports whether vfio-pci's ids include an id:
// "10de:2684[:subvendor:subdevice:class:mask]".
func isListed(have []string, id string) bool {
	return slices.ContainsFunc(have, func(h string) bool { return strings.EqualFold(h, id) })
}

// initramfs rebuilds the initramfs, so that it has the changed files.
func (spec Spec) initramfs(s State, changes ...*Change) *Change {
	c := &Change{ID: Initramfs, What: "initramfs of all kernels", Commands: [][]string{{"update-initramfs", "-u", "-k", "all"}},
		Why: []string{"Modules are loaded from the initramfs first, which has a copy of these files."}}
	files := s.filesUnder("/etc/modules", "/etc/modules-load.d/", "/etc/modprobe.d/")
	changed := false
	for _, other := range changes {
		if other != nil {
			files, changed = withChanges(files, other.Files), true
		}
	}
	c.Stamp = digest(withChanges(files, nil))
	stale := len(spec.HeldByHostDriver(s)) > 0 && strings.TrimSpace(s.file(stamps+Initramfs).Text) != c.Stamp
	if !changed && !stale {
		return nil
	}
	return c
}
