package qemu

import (
	"context"
	"crypto/sha256"
	_ "embed" // image.sh
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// imageScript makes the image.
//
//go:embed image.sh
var imageScript string

// Image is a system that boots.
type Image struct {
	Disk   string // file, raw
	Kernel string // file
	Initrd string // file
}

// ImageIn is the image in a folder, under the names that [Debian] gives its files.
func ImageIn(dir string) Image {
	return Image{Disk: filepath.Join(dir, "disk.raw"), Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd")}
}

// programs are the programs for running and building guests, with their Debian packages.
func programs() [][2]string {
	return [][2]string{{"qemu-system-x86_64", "qemu-system-x86"}, {"qemu-img", "qemu-utils"},
		{"mmdebstrap", "mmdebstrap"}, {"mke2fs", "e2fsprogs"}, {"sfdisk", "fdisk"}}
}

// Missing returns the Debian packages that this machine lacks for [Debian] and [New].
func Missing() []string {
	var out []string
	for _, p := range programs() {
		if find(p[0]) == "" {
			out = append(out, p[1])
		}
	}
	return out
}

// find looks for a program also where root has some.
func find(name string) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// Debian returns the Debian 13 cloud image in a folder, and builds it if it is missing: two
// minutes as root, from this machine's Debian mirror. Other users get an error with the
// command for root. Its name contains a digest of its sources, so another release of this
// package builds another one.
func Debian(ctx context.Context, cache string) (Image, error) {
	name := fmt.Sprintf("debian-13-%x", sha256.Sum256([]byte(imageScript)))[:len("debian-13-")+12]
	dir := filepath.Join(cache, name)
	image := ImageIn(dir)
	if _, err := os.Stat(dir); err == nil {
		return image, nil
	}
	if lacks := Missing(); len(lacks) > 0 {
		return Image{}, fmt.Errorf("no image can be made without %s: apt-get install %s", strings.Join(lacks, ", "), strings.Join(lacks, " "))
	}
	if os.Geteuid() != 0 {
		return Image{}, byRoot(dir)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Image{}, err
	}
	// A concurrent build gives the same result; the first one stays.
	work, err := os.MkdirTemp(cache, ".new-")
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	cmd := exec.CommandContext(ctx, "sh", "-c", imageScript, "image.sh", work)
	dieWithUs(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return Image{}, fmt.Errorf("Debian image: %w\n%s", err, out)
	}
	if err := os.Rename(work, dir); err != nil && !there(image) {
		return Image{}, err
	}
	return image, nil
}

// byRoot returns the command with which root builds the image: one script, which can be read
// first.
func byRoot(dir string) error {
	script := dir + ".sh"
	if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), os.WriteFile(script, []byte(imageScript), 0o644)); err != nil {
		return err
	}
	return fmt.Errorf("a system's files are root's, so root makes the image, once and in two or three minutes:\n"+
		"  mkdir %[1]s.new && sudo sh %[2]s %[1]s.new && mv %[1]s.new %[1]s", dir, script)
}

func there(i Image) bool {
	return !slices.ContainsFunc([]string{i.Disk, i.Kernel, i.Initrd}, func(file string) bool {
		_, err := os.Stat(file)
		return err != nil
	})
}
