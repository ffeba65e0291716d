package site

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// Prepare reads [labctl.Needs] from in, and writes [labctl.Prepared] to out. What it does meanwhile
// is said to say, a line each. A generated model is written to dir.
func Prepare(ctx context.Context, dir string, in io.Reader, out, say io.Writer) error {
	var needs labctl.Needs
	if err := json.NewDecoder(in).Decode(&needs); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	p := labctl.Preparation{Guests: needs.Guests}
	var err error
	if p.Model, err = hardware(needs, dir); err != nil {
		return err
	}
	if p.Guests.Real() {
		if p.Guests.Image, err = guestImage(ctx, p.Guests.Image, say); err != nil {
			p = labctl.Preparation{Refusal: fmt.Sprintf("%s: guests: qemu: %v", needs.GuestsPlace, err)}
		}
	}
	return json.NewEncoder(out).Encode(p)
}

// hardware is a preset's name, or the file of a model that is generated.
func hardware(needs labctl.Needs, dir string) (string, error) {
	name, model := labmodel.ModelFor(needs)
	if name != "" {
		return name, nil
	}
	text, err := model.YAML()
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(dir, "model-"+needs.Name+".yaml"))
	if err != nil {
		return "", err
	}
	text = append([]byte("# The lab's hardware for the cluster "+needs.Name+"; generated again for the next lab.\n"), text...)
	return file, os.WriteFile(file, text, 0o600)
}

// guestImage is the folder of the image that real guests boot: the given one, or one that is made
// once for this user.
func guestImage(ctx context.Context, given string, say io.Writer) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	fmt.Fprintln(say, "looking for the image of Debian 13, which is made once and takes two or three minutes")
	image, err := qemu.Debian(ctx, filepath.Join(cache, "homelab"))
	return filepath.Dir(image.Disk), err
}
