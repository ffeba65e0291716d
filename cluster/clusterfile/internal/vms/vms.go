// Package vms checks what a file says of VMs that are not nodes and of no other machine.
package vms

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// Check checks a VM as the file has it, before it is completed as a node is.
func Check(c *decode.Checker, s *spec.Spec, vm *spec.VM) {
	source(c, s, vm)
	for i := range vm.Disks {
		d := &vm.Disks[i]
		for _, at := range []any{&d.Mount, &d.FS, &d.Role} {
			if c.IsSet(at) {
				c.Wrong(at, fmt.Sprintf("homelab does not log in to %s, so it mounts nothing there", vm.Name), "remove it, and mount the disk in the guest: its serial is "+d.Name)
			}
		}
	}
	if c.IsSet(&vm.GPUs.Sharing) {
		c.Wrong(&vm.GPUs.Sharing, vm.Name+" is not a node, and sharing is about pods", "remove it")
	}
	if vm.Host == spec.AnyHost || vm.Host == "" && s.Proxmox.Host == spec.AnyHost {
		c.Wrong(&vm.Host, "host: auto chooses among hosts for nodes, and a VM stays where its disks are", "write host: and the name of one")
	}
}

// longestWindows is the length of a computer's name on Windows (NetBIOS); cloudbase-init cuts longer ones.
const longestWindows = 15

func source(c *decode.Checker, s *spec.Spec, vm *spec.VM) {
	switch {
	case vm.Template != "" && c.IsSet(&vm.Cloud):
		c.Wrong(&vm.Template, "the VM is made from a template and from an image", "keep one of them")
	case c.IsSet(&vm.ISO) && (vm.Template != "" || c.IsSet(&vm.Cloud)):
		c.Wrong(&vm.ISO, "the VM is installed from discs and made from a template or an image", "keep one of them")
	case c.IsSet(&vm.ISO):
		installation(c, vm)
	case vm.Template == "":
		image(c, &vm.Cloud)
	}
	if vm.System != spec.Windows {
		return
	}
	if vm.Template == "" && !c.IsSet(&vm.ISO) {
		c.Wrong(&vm.System, "there is no image of Windows to download", "write iso: with its discs, or template: with a template of yours")
	}
	if s.IsLab() && vm.IsInstalled() {
		c.Wrong(&vm.ISO, "the lab has no discs of Windows", "try the rest of the file there, without this VM")
	} else if s.IsLab() && vm.Agent.IsOn() {
		c.Wrong(&vm.System, "the lab has no Windows, so no agent would answer", "write agent: false while you try the file there")
	}
	if len(vm.Name) > longestWindows {
		c.Wrong(&vm.System, fmt.Sprintf("%s is longer than a computer's name on Windows", vm.Name), fmt.Sprintf("shorten it to %d characters", longestWindows))
	}
}

func image(c *decode.Checker, i *spec.CloudImage) {
	i.SHA256, i.SHA512 = strings.ToLower(i.SHA256), strings.ToLower(i.SHA512)
	c.IsURL(&i.URL, "http", "https")
	name := ""
	if u, err := url.Parse(i.URL); err == nil {
		name = path.Base(u.Path)
	}
	switch {
	case i.URL == "":
		c.Wrong(&i.URL, "the VM has no image", "write image: with url: and sha256:, e.g. of a distribution's cloud image, or template: with a template of Proxmox's")
		return
	case slices.Contains([]string{".xz", ".gz", ".zst", ".bz2", ".zip", ".tar"}, path.Ext(name)): // it unpacks only ISOs
		c.Wrong(&i.URL, fmt.Sprintf("%s is compressed, and Proxmox does not unpack images", name), "write the address of a .qcow2, .img or .raw file, if need be of an unpacked copy on a web server of yours")
	case !slices.Contains([]string{".qcow2", ".img", ".raw"}, path.Ext(name)):
		c.Wrong(&i.URL, fmt.Sprintf("%s does not say which kind of image it is", name), "write the address of a .qcow2, .img or .raw file")
	}
	switch {
	case i.SHA256 != "" && i.SHA512 != "":
		c.Wrong(&i.SHA256, "the image has two checksums, and Proxmox compares one", "keep the longer one")
	case i.Sum() == "":
		c.Wrong(&i.SHA256, "the image has no checksum", "write sha256: or sha512: with its line in the list of checksums beside it")
	case i.SHA256 != "" && !decode.Matches(`^[0-9a-f]{64}$`, i.SHA256):
		c.Wrong(&i.SHA256, "sha256 is not a SHA-256", "write its 64 hex digits")
	case i.SHA512 != "" && !decode.Matches(`^[0-9a-f]{128}$`, i.SHA512):
		c.Wrong(&i.SHA512, "sha512 is not a SHA-512", "write its 128 hex digits")
	}
}
