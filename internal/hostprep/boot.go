package hostprep

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Paths of the kernel command line (pve-docs, system-booting.adoc).
const (
	grubFilePath = "/etc/default/grub"
	grubFolder   = "/etc/default/grub.d/"
	cmdlinePath  = "/etc/kernel/cmdline"
)

// options returns the wanted kernel options.
func (spec Spec) options(s State) options {
	o := options{refuse: []string{"iommu=off", "intel_iommu=off", "amd_iommu=off"}}
	running := parseCmdline(s.Cmdline)
	switch {
	case s.Intel && !s.kernelAtLeast(6, 8):
		o.want = append(o.want, "intel_iommu=on")
		o.why = append(o.why, "intel_iommu=on switches the IOMMU on, which limits a device of a VM to that VM's memory. Before Linux 6.8 it is off on Intel.")
	case s.Intel:
		o.why = append(o.why, "The IOMMU itself is on by default since Linux 6.8 on Intel, so intel_iommu=on is not needed.")
	default:
		o.why = append(o.why, "The IOMMU itself is on by default on AMD, so it needs no option.")
	}
	// Keep another mode: the user had a reason to choose it.
	if !running.hasKey("iommu") || running.has("iommu=off") || running.has("iommu=pt") {
		o.want = append(o.want, "iommu=pt")
		o.why = append(o.why, "iommu=pt lets the host's own devices skip the translation that only VMs need.")
	}
	if spec.Framebuffer && slices.ContainsFunc(spec.functions(s), func(d Device) bool { return d.BootVGA }) {
		o.want = append(o.want, "initcall_blacklist=sysfb_init")
		o.why = append(o.why, "initcall_blacklist=sysfb_init keeps the console off the card: the host's screen stays dark after the boot menu.")
	}
	if off := o.unwantedOptions(running); len(off) > 0 {
		o.why = append(o.why, strings.Join(off, ", ")+" switches the IOMMU off and has to go.")
	}
	return o
}

// boot returns the change of the kernel's command line, for any boot loader.
func (spec Spec) boot(s State) (*Change, error) {
	if len(s.Loaders) == 0 {
		return nil, errors.New("proxmox-boot-tool manages the ESPs and does not say how any of them boots: " +
			"proxmox-boot-tool status on the host says why; proxmox-boot-tool clean forgets those that are gone")
	}
	o := spec.options(s)
	c := &Change{ID: Boot, What: "kernel command line", Why: o.why}
	for _, loader := range s.Loaders {
		files, err := s.bootFiles(loader, o)
		if err != nil {
			return nil, err
		}
		c.Files = append(c.Files, files...)
	}
	for i := range c.Files {
		c.Files[i].Mode = s.file(c.Files[i].Path).Mode
	}
	c.Stamp = digest(withChanges(s.filesUnder(grubFilePath, grubFolder, cmdlinePath), c.Files))
	refreshed := o.areSet(parseCmdline(s.Cmdline)) || strings.TrimSpace(s.file(stamps+Boot).Text) == c.Stamp
	if len(c.Files) == 0 && refreshed {
		return nil, nil
	}
	c.Commands = [][]string{s.refresh()}
	c.Undo = []string{"copy each " + backupSuffix + " back, run " + strings.Join(s.refresh(), " ") + ", reboot"}
	if len(c.Files) == 0 {
		c.Why = []string{"The options are in the file, but the boot loader has not been updated yet."}
		c.Undo = nil
	}
	return c, nil
}

// refresh returns the command that gives the loader the new command line.
func (s State) refresh() []string {
	if s.ESPs {
		return []string{"proxmox-boot-tool", "refresh"}
	}
	return []string{"update-grub"}
}

// bootFiles returns the changes of files for one loader.
func (s State) bootFiles(loader Loader, o options) ([]FileChange, error) {
	if loader == SystemdBoot {
		return s.kernelCmdline(o)
	}
	config := grubConfig{{path: grubFilePath}}
	for _, f := range s.filesUnder(grubFilePath, grubFolder) {
		parsed, err := parseGrub(f.Path, f.Text)
		if running := parseCmdline(s.Cmdline); err != nil && o.areSet(running) {
			return nil, nil // already done by hand
		} else if err != nil {
			return nil, fmt.Errorf("%w: %s; then run %s, reboot, and run this again", err, o.manualEdit(running), strings.Join(s.refresh(), " "))
		}
		if f.Path == grubFilePath {
			config[0] = parsed
			continue
		}
		config = append(config, parsed)
	}
	if o.areSet(config.effective()) {
		return nil, nil
	}
	changes := config.edit(o)
	for i := range changes {
		c := &changes[i]
		c.New = !s.has(c.Path)
		at := slices.IndexFunc(config, func(f grubFile) bool { return f.path == c.Path })
		parsed, err := parseGrub(c.Path, c.After)
		if err != nil {
			return nil, err
		}
		config[at] = parsed
	}
	if !o.areSet(config.effective()) {
		return nil, unclosedQuoteError(config[0].path)
	}
	return changes, nil
}

// unclosedQuoteError returns the error for a line whose quote is never closed, which would swallow added
// options.
func unclosedQuoteError(path string) error {
	return fmt.Errorf("%s: the command line has an unclosed quote: fix that first", path)
}

func (s State) has(path string) bool {
	return slices.ContainsFunc(s.Files, func(f File) bool { return f.Path == path })
}

// kernelCmdline returns the changes for systemd-boot, which uses the first line of the file. If the
// file is missing, proxmox-boot-tool uses the running kernel's command line, and so does
// kernelCmdline.
func (s State) kernelCmdline(o options) ([]FileChange, error) {
	f := s.file(cmdlinePath)
	line, rest, newline := strings.Cut(f.Text, "\n")
	if strings.TrimSpace(line) == "" {
		words := slices.DeleteFunc(parseCmdline(s.Cmdline), func(w string) bool {
			return strings.HasPrefix(w, "initrd=") || strings.HasPrefix(w, "BOOT_IMAGE=")
		})
		line, newline = strings.Join(words, " "), true
	}
	if o.areSet(parseCmdline(line)) {
		return nil, nil
	}
	text := o.edit(strings.TrimRight(line, " \t\r"))
	if !o.areSet(parseCmdline(text)) {
		return nil, unclosedQuoteError(cmdlinePath)
	}
	if newline {
		text += "\n" + rest
	}
	return []FileChange{{Path: cmdlinePath, Before: f.Text, After: text, New: !s.has(cmdlinePath)}}, nil
}
