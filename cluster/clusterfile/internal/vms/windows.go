package vms

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

const (
	// WindowsDisk is the smallest disk that Windows 11 takes.
	WindowsDisk = 64 * spec.GiB
	serverDisk  = 32 * spec.GiB // which Windows Server takes
)

// installation checks from what Windows is installed.
func installation(c *decode.Checker, vm *spec.VM) {
	w := &vm.ISO
	if vm.System != spec.Windows {
		c.Wrong(&vm.System, "only Windows is installed from discs", "write system: windows, or image: with the cloud image of a distribution in place of iso:")
		return
	}
	const volume = `^[A-Za-z][A-Za-z0-9._-]*:iso/[A-Za-z0-9][A-Za-z0-9._-]*\.iso$`
	for _, disc := range []struct {
		at          *string
		key, what   string
		nameExample string
	}{
		{&w.Windows, "windows", "Microsoft's installation disc", "Win11_24H2.iso"},
		{&w.Drivers, "drivers", "the disc virtio-win, with the drivers of the VM's disk and card", "virtio-win.iso"},
		{&w.CloudbaseInit.ISO, "cloudbaseInit.iso", "a disc with CloudbaseInitSetup_x64.msi", "cloudbase-init.iso"},
	} {
		if !decode.Matches(volume, *disc.at) {
			c.Wrong(disc.at, fmt.Sprintf("iso.%s is %q, and should be %s on a storage of the host", disc.key, *disc.at, disc.what), "write it as Proxmox does, e.g. local:iso/"+disc.nameExample)
		}
	}
	if w.CloudbaseInit.SHA256 = strings.ToLower(w.CloudbaseInit.SHA256); !decode.Matches(`^[0-9a-f]{64}$`, w.CloudbaseInit.SHA256) {
		c.Wrong(&w.CloudbaseInit.SHA256, "iso.cloudbaseInit has no checksum of CloudbaseInitSetup_x64.msi", "write sha256: with the 64 hex digits that sha256sum prints")
	}
	if w.DriverFolder() == "" {
		c.Wrong(&w.Edition, fmt.Sprintf("iso.edition is %q, for which virtio-win has no drivers", w.Edition), "write the name that dism /Get-ImageInfo shows, e.g. Windows 11 Pro or Windows Server 2025 SERVERSTANDARD")
	}
	if !decode.Matches(`^[a-z]{2,3}(-[A-Z][a-z]{3})?-[A-Z]{2}$`, w.Language) {
		c.Wrong(&w.Language, fmt.Sprintf("iso.language is %q", w.Language), "write a language and a country, e.g. en-US or de-DE")
	}
	if w.ProductKey != "" && !decode.Matches(`^[A-Z0-9]{5}(-[A-Z0-9]{5}){4}$`, w.ProductKey) {
		c.Wrong(&w.ProductKey, "iso.productKey is not a key of Windows", "write one that Microsoft publishes for KMS clients, or remove it")
	}
	if i := slices.IndexFunc(vm.Disks, func(d spec.Disk) bool { return d.Name == "os" }); i >= 0 && vm.Disks[i].Size > 0 && vm.Disks[i].Size < serverDisk {
		c.Wrong(&vm.Disks[i].Size, fmt.Sprintf("a disk of %s is too small for Windows", vm.Disks[i].Size), "write "+WindowsDisk.String()+" or more")
	}
	if !vm.Agent.IsOn() {
		c.Wrong(&vm.Agent, "only the agent says that Windows is installed", "remove agent: false")
	}
}
