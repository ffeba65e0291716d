package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// prepare reads what a cluster needs from in, and writes the hardware and guests to start with.
func prepare(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("prepare", flag.ContinueOnError)
	dir := flags.String("dir", labctl.DefaultDir, "the folder for a generated model")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	var needs labctl.Needs
	if err := json.NewDecoder(in).Decode(&needs); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	p := labctl.Prepared{Guests: needs.Guests}
	var err error
	if p.Model, err = hardware(needs, *dir); err != nil {
		return err
	}
	if p.Guests.Real() {
		if p.Guests.Image, err = guestImage(ctx, p.Guests.Image); err != nil {
			p = labctl.Prepared{Refusal: fmt.Sprintf("%s: guests: qemu: %v", needs.GuestsPlace, err)}
		}
	}
	return json.NewEncoder(out).Encode(p)
}

// hardware is a preset's name, or the file of a model that is generated.
func hardware(needs labctl.Needs, dir string) (string, error) {
	name, model := labmodel.For(needs)
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
	return file, keep.Whole(file, text, 0o600)
}

// guestImage is the folder of the image that real guests boot: the given one, or one that is made
// once for this user.
func guestImage(ctx context.Context, given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	fmt.Fprintln(os.Stderr, "looking for the image of Debian 13, which is made once and takes two or three minutes")
	image, err := qemu.Debian(ctx, filepath.Join(cache, "homelab"))
	return filepath.Dir(image.Disk), err
}
