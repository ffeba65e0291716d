package hostprep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// Change is one change of a host: a plan shows it, and [Apply] makes it.
type Change struct {
	ID       string       `json:"id"`                 // Boot, Modules, …
	What     string       `json:"what"`               // a few words
	Why      []string     `json:"why"`                // sentences; if each command has its own, as many as Commands
	Files    []FileChange `json:"files,omitempty"`    // written first
	Commands [][]string   `json:"commands,omitempty"` // run after the files are written, in this order
	Undo     []string     `json:"undo,omitempty"`     // how to undo it: words, or several commands
	// Stamp is written to /var/lib/homelab/host when the whole change is done: a file can be
	// correct while what is generated from it is stale. Empty: no stamp is needed.
	Stamp string `json:"stamp,omitempty"`
}

// The changes, in the order in which they are made.
const (
	Boot       = "boot"      // the kernel's command line
	Modules    = "modules"   // what is loaded at boot
	Cards      = "cards"     // vfio-pci takes the cards
	Initramfs  = "initramfs" // the initramfs gets copies of Modules and Cards
	Storages   = "storages"
	Role       = "role"
	User       = "user"
	RoleGrants = "grants"
)

// FileChange is the new state of one file.
type FileChange struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after"`
	New    bool   `json:"new,omitempty"` // the file does not exist
	Ours   bool   `json:"ours"`          // written by homelab, so it needs no backup
	Mode   uint32 `json:"-"`             // 0: 0644
}

// backupSuffix is the suffix of the backup of a file that homelab did not write.
const backupSuffix = ".homelab-before"

// stamps is the folder of each [Change.Stamp], in a file named after the change's ID.
const stamps = "/var/lib/homelab/host/"

// StampPath returns the path of the change's stamp, or "" if it has none.
func (c *Change) StampPath() string {
	if c.Stamp == "" {
		return ""
	}
	return stamps + c.ID
}

// Backup returns the path of the file's backup, or "" if it has none.
func (f FileChange) Backup() string {
	if f.Ours || f.New {
		return ""
	}
	return f.Path + backupSuffix
}

// Lines returns the lines to remove and the lines to add.
func (f FileChange) Lines() (gone, come []string) {
	split := func(s string) []string {
		if s == "" {
			return nil
		}
		return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	}
	before, after := split(f.Before), split(f.After)
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return before, after
}

// Diff describes the change for a plan. A nil Change has an empty Diff.
func (c *Change) Diff() converge.Diff {
	if c == nil {
		return nil
	}
	var d converge.Diff
	for _, f := range c.Files {
		gone, come := f.Lines()
		d = append(d, converge.Field{Path: f.Path, Have: strings.Join(gone, "; "), Want: strings.Join(come, "; "), Effect: converge.Update})
	}
	for _, command := range c.Commands {
		d = append(d, converge.Field{Want: remote.Cmd{Args: command}.String(), Effect: converge.Update, Note: c.What})
	}
	return d
}

// Apply makes the change c. If a file has changed since c was computed, Apply returns an error and
// does nothing. It replaces files atomically, and keeps one backup of the original beside each.
// When ctx ends, Apply waits for a running command and starts no other.
func Apply(ctx context.Context, r remote.Runner, c *Change) error {
	for _, f := range c.Files {
		now, err := remote.ReadFile(ctx, r, f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if !f.New {
				return fmt.Errorf("%s was removed after it was checked: run it again", f.Path)
			}
		case err != nil:
			return err
		case f.New || !bytes.Equal(now, []byte(f.Before)):
			return fmt.Errorf("%s was changed by somebody else after it was checked: run it again", f.Path)
		}
	}
	for _, f := range c.Files {
		if err := f.write(ctx, r); err != nil {
			return err
		}
	}
	for _, command := range c.Commands {
		if err := runUninterrupted(ctx, r, command); err != nil {
			return err
		}
	}
	if c.Stamp == "" {
		return nil
	}
	return remote.WriteFile(ctx, r, c.StampPath(), []byte(c.Stamp+"\n"), 0o644)
}

// commandTime bounds one command, such as building an initramfs for each of many kernels and
// copying them to several slow ESPs.
const commandTime = 20 * time.Minute

// runUninterrupted runs a command to its end even if ctx ends. A proxmox-boot-tool that is interrupted
// leaves half an initramfs on an ESP, and no host boots from that.
func runUninterrupted(ctx context.Context, r remote.Runner, command []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	converge.Progressf(ctx, "%s", remote.Cmd{Args: command})
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTime)
	defer cancel()
	said := make(chan struct{})
	quiet := context.AfterFunc(ctx, func() {
		defer close(said)
		converge.Progressf(whole, "%s must not be interrupted: waiting for it to end", remote.Cmd{Args: command})
	})
	err := remote.Run(whole, r, command...)
	if !quiet() {
		<-said
	}
	return err
}

func (f FileChange) write(ctx context.Context, r remote.Runner) error {
	mode := fs.FileMode(f.Mode).Perm()
	if mode == 0 {
		mode = 0o644
	}
	if backup := f.Backup(); backup != "" {
		there, err := remote.Exists(ctx, r, backup)
		if err != nil {
			return err
		}
		if !there {
			// Write the backup atomically, unlike cp: half a copy would count as a backup in the
			// next run.
			if err := remote.WriteFile(ctx, r, backup, []byte(f.Before), mode); err != nil {
				return fmt.Errorf("keep a copy of %s: %w", f.Path, err)
			}
		}
	}
	converge.Progressf(ctx, "writing %s", f.Path)
	return remote.WriteFile(ctx, r, f.Path, []byte(f.After), mode)
}

// digest returns a checksum of files, to check whether something was generated from exactly these.
func digest(files []File) string {
	h := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%s %d\n%s\n", f.Path, len(f.Text), f.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// withChanges returns files as they are after changes.
func withChanges(files []File, changes []FileChange) []File {
	out := slices.Clone(files)
	for _, c := range changes {
		i := slices.IndexFunc(out, func(f File) bool { return f.Path == c.Path })
		if i < 0 {
			out = append(out, File{Path: c.Path})
			i = len(out) - 1
		}
		out[i].Text = c.After
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out
}
