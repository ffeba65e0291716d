package host

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

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/remote"
)

// Change is one thing to be done on a host: what a plan shows, and what [Apply] does.
type Change struct {
	ID       string       `json:"id"`                 // Boot, Modules, …
	What     string       `json:"what"`               // a few words
	Why      []string     `json:"why"`                // sentences; as many as Commands where each has its own
	Files    []FileChange `json:"files,omitempty"`    // written first
	Commands [][]string   `json:"commands,omitempty"` // run then, in this order
	Undo     []string     `json:"undo,omitempty"`     // how to undo it: words, or several commands
	// Stamp is left in /var/lib/homelab/host when all that was done: a file can be
	// right while what is made of it is not yet. Empty: none is needed.
	Stamp string `json:"stamp,omitempty"`
}

// The changes, in the order in which they are made.
const (
	Boot      = "boot"      // the kernel's command line
	Modules   = "modules"   // what is loaded at boot
	Cards     = "cards"     // vfio-pci takes the cards
	Initramfs = "initramfs" // the last two are copied to where the kernel looks first
	Storages  = "storages"
	Role      = "role"
	User      = "user"
	Grants    = "grants"
)

// FileChange is the new state of one file.
type FileChange struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after"`
	New    bool   `json:"new,omitempty"` // there is no such file
	Ours   bool   `json:"ours"`          // made by us, so there is nothing to keep a copy of
	Mode   uint32 `json:"-"`             // 0: 0644
}

// backupSuffix is what the name of the first copy of somebody else's file ends with.
const backupSuffix = ".homelab-before"

// stamps is where [Change.Stamp] is left, in a file of the change's ID.
const stamps = "/var/lib/homelab/host/"

// StampPath is where the change's stamp is left; empty when it has none.
func (c *Change) StampPath() string {
	if c.Stamp == "" {
		return ""
	}
	return stamps + c.ID
}

// Backup is where a copy of the file is kept; empty when none is.
func (f FileChange) Backup() string {
	if f.Ours || f.New {
		return ""
	}
	return f.Path + backupSuffix
}

// Lines returns the lines that go and those that come.
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

// Diff says the change in the words of a plan; nil is none.
func (c *Change) Diff() drift.Diff {
	if c == nil {
		return nil
	}
	var d drift.Diff
	for _, f := range c.Files {
		gone, come := f.Lines()
		d = append(d, drift.Field{Path: f.Path, Have: strings.Join(gone, "; "), Want: strings.Join(come, "; "), Effect: drift.Update})
	}
	for _, command := range c.Commands {
		d = append(d, drift.Field{Want: remote.Cmd{Args: command}.String(), Effect: drift.Update, Note: c.What})
	}
	return d
}

// Apply does what c says. A file that is no longer what c was made for is an error,
// and then nothing of c is done; otherwise each file is whole, old or new, at any
// time, and what was there before is kept beside it, once. When ctx ends, a command
// that runs is waited for, and no further one begins.
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
		if err := toItsEnd(ctx, r, command); err != nil {
			return err
		}
	}
	if c.Stamp == "" {
		return nil
	}
	return remote.WriteFile(ctx, r, c.StampPath(), []byte(c.Stamp+"\n"), 0o644)
}

// commandTime is how long a command may take: an initramfs for each of many kernels,
// copied to several slow ESPs.
const commandTime = 20 * time.Minute

// toItsEnd runs a command that ends by itself even when ctx does: proxmox-boot-tool
// that is stopped leaves half an initramfs on an ESP, with which no host starts.
func toItsEnd(ctx context.Context, r remote.Runner, command []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	progress.Say(ctx, "%s", remote.Cmd{Args: command})
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTime)
	defer cancel()
	said := make(chan struct{})
	quiet := context.AfterFunc(ctx, func() {
		defer close(said)
		progress.Say(whole, "%s must not be interrupted: waiting for it to end", remote.Cmd{Args: command})
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
			// Whole or not at all, unlike cp: half a copy would count as one the next time.
			if err := remote.WriteFile(ctx, r, backup, []byte(f.Before), mode); err != nil {
				return fmt.Errorf("keep a copy of %s: %w", f.Path, err)
			}
		}
	}
	progress.Say(ctx, "writing %s", f.Path)
	return remote.WriteFile(ctx, r, f.Path, []byte(f.After), mode)
}

// digest sums up files, so that it can be told whether something was made of these.
func digest(files []File) string {
	h := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%s %d\n%s\n", f.Path, len(f.Text), f.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// after returns files as they will be.
func after(files []File, changes []FileChange) []File {
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
