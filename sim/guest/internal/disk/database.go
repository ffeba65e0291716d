package disk

import "slices"

// Package is what dpkg knows of an installed package.
type Package struct {
	Version string
	Held    bool
	Half    bool // unpacked, and not configured: its own script failed
}

// Install puts one package into the database, without its files.
func Install(d *Disk, name, version string) error {
	return EditPackages(d, func(all map[string]Package) { p := all[name]; p.Version, p.Half = version, false; all[name] = p })
}

// EditPackages changes the database; clones keep theirs.
func EditPackages(d *Disk, f func(map[string]Package)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]Package, len(d.pkgs)+1)
	for k, v := range d.pkgs {
		all[k] = v
	}
	f(all)
	d.pkgs = all
	return nil
}

// Database returns the database; it must not be changed.
func Database(d *Disk) map[string]Package {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.pkgs
}

// Packages returns what is installed, by name, with its version.
func (d *Disk) Packages() map[string]string {
	out := map[string]string{}
	for name, p := range Database(d) {
		out[name] = p.Version
	}
	return out
}

// Holds returns the names of held packages, sorted.
func (d *Disk) Holds() []string {
	var out []string
	for name, p := range Database(d) {
		if p.Held {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
