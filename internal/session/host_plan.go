package session

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/printable"
)

// prepText is a plan in full detail: each line of each file, each command, why, and how to
// undo it.
func prepText(all *prepPlan) string {
	var b strings.Builder
	n := 0
	for _, h := range all.hosts {
		b.WriteString(hostHead(h))
		changesText(&b, &n, h.Changes)
		if len(h.Changes) == 0 {
			b.WriteString("  Nothing to change.\n\n")
		}
		switch {
		case len(h.Reboot) > 0 && len(h.Changes) > 0:
			paragraph(&b, "  ", "These changes take effect after a reboot, which is not part of this: "+strings.Join(h.Reboot, "; ")+".")
			b.WriteString("\n")
		case len(h.Reboot) > 0:
			paragraph(&b, "  ", "Waiting for a reboot: "+strings.Join(h.Reboot, "; ")+".")
			b.WriteString("\n")
		}
		notesText(&b, h.Notes)
	}
	b.WriteString("All hosts of this Proxmox cluster\n\n")
	token := all.access.Token
	for _, c := range all.access.Changes {
		if c.ID == hostprep.RoleGrants {
			tokenText(&b, &n, token)
			token = nil
		}
		changesText(&b, &n, []*hostprep.Change{c})
	}
	tokenText(&b, &n, token)
	if len(all.access.Changes)+len(all.access.Token) == 0 {
		b.WriteString("  Nothing to change.\n\n")
	}
	notesText(&b, all.access.Notes)
	return b.String()
}

// hostHead describes the host and its cards.
func hostHead(h *hostprep.HostPlan) string {
	s := h.State
	cpu, firmware := "AMD", "BIOS"
	if s.Intel {
		cpu = "Intel"
	}
	if s.UEFI {
		firmware = "UEFI"
	}
	loader := make([]string, len(s.Loaders))
	for i, l := range s.Loaders {
		loader[i] = string(l)
		if s.ESPs {
			loader[i] += " kept by proxmox-boot-tool"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Host %s: Proxmox VE %s, Linux %s, %s, %s, boots by %s\n", h.Name, s.Version, s.Kernel, cpu, firmware, strings.Join(loader, " and "))
	for _, d := range s.Devices {
		if !d.IsGPU() {
			continue
		}
		driver, group := "no driver holds it", "no IOMMU group"
		if d.Driver != "" {
			driver = "held by " + d.Driver
		}
		if d.IOMMUGroup >= 0 {
			group = fmt.Sprintf("IOMMU group %d", d.IOMMUGroup)
		}
		fmt.Fprintf(&b, "  %s  %s  %s: %s, %s\n", d.Address, d.ID(), d.Name, driver, group)
	}
	b.WriteString("\n")
	return b.String()
}

func changesText(b *strings.Builder, n *int, changes []*hostprep.Change) {
	for _, c := range changes {
		*n++
		fmt.Fprintf(b, "  %d. %s\n", *n, capital(c.What))
		each := len(c.Why) > 1 && len(c.Why) == len(c.Commands)
		if !each {
			paragraph(b, "     ", strings.Join(c.Why, " "))
		}
		for _, f := range c.Files {
			fileText(b, f)
		}
		for i, command := range c.Commands {
			if each {
				paragraph(b, "     ", c.Why[i])
			}
			commandsText(b, [][]string{command})
		}
		if path := c.StampPath(); path != "" {
			fmt.Fprintf(b, "     %s (a note that this was done)\n", path)
		}
		undoText(b, c.Undo)
		b.WriteString("\n")
	}
}

// undoText says how to undo a change: as text, or as a list of commands.
func undoText(b *strings.Builder, undo []string) {
	switch len(undo) {
	case 0:
	case 1:
		paragraph(b, "     ", "To undo it: "+undo[0]+".")
	default:
		b.WriteString("     To undo it:\n")
		for _, line := range undo {
			b.WriteString("       " + line + "\n")
		}
	}
}

func fileText(b *strings.Builder, f hostprep.FileChange) {
	switch {
	case f.New:
		fmt.Fprintf(b, "     %s (new)\n", f.Path)
	case f.Backup() != "":
		fmt.Fprintf(b, "     %s (a copy stays in %s)\n", f.Path, f.Backup())
	default:
		fmt.Fprintf(b, "     %s\n", f.Path)
	}
	gone, come := f.Lines()
	for _, line := range gone {
		fmt.Fprintf(b, "       - %s\n", line)
	}
	for _, line := range come {
		fmt.Fprintf(b, "       + %s\n", line)
	}
}

// commandsText prints commands so that they can be pasted.
func commandsText(b *strings.Builder, commands [][]string) {
	for _, command := range commands {
		words := make([]string, len(command))
		for i, w := range command {
			words[i] = w
			if strings.ContainsAny(w, " !$'\"\\;&|<>()*?") {
				words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
			}
		}
		fmt.Fprintf(b, "     $ %s\n", strings.Join(words, " "))
	}
}

func tokenText(b *strings.Builder, n *int, commands [][]string) {
	if len(commands) == 0 {
		return
	}
	*n++
	fmt.Fprintf(b, "  %d. API token\n", *n)
	why := "Every other command uses it instead of a login. Proxmox shows its secret once, in the answer to this command."
	if len(commands) > 1 {
		why += " Programs that use the existing token stop working (-force)."
	}
	paragraph(b, "     ", why)
	commandsText(b, commands)
	last := commands[len(commands)-1]
	fmt.Fprintf(b, "     To undo it: pveum user token delete %s %s.\n\n", printable.Word(last[4]), printable.Word(last[5]))
}

func notesText(b *strings.Builder, notes []hostprep.Note) {
	for _, n := range notes {
		what := "Note: "
		if n.Fatal {
			what = "Problems:  "
		}
		text := what + n.What + "."
		if n.Do != "" {
			text += " " + capital(n.Do) + "."
		}
		paragraph(b, "  ", text)
	}
	if len(notes) > 0 {
		b.WriteString("\n")
	}
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// paragraph wraps a text to a width that fits terminals and mails.
func paragraph(b *strings.Builder, indent, text string) {
	const width = 100
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	if line != indent {
		b.WriteString(line + "\n")
	}
}
