// Command 02-render-seed writes the CD-ROM image from which cloud-init sets up a
// worker at its first boot: hostname, user, network, mounted disks.
//
//	go run . -name wk1 -key ~/.ssh/id_ed25519.pub -mac bc:24:11:00:00:21 -address 10.0.0.21/24 -gateway 10.0.0.1 -out wk1.iso
//
// Nothing is asked and no machine is reached: equal flags give equal bytes, which is
// why the digest that it prints is a good name for the image. Attach the image to any
// VM, on whatever hypervisor, that boots a cloud image.
package main

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
)

func main() {
	m := cloudinit.Machine{}
	flag.StringVar(&m.Hostname, "name", "wk1", "hostname")
	flag.StringVar(&m.User, "user", "ubuntu", "who may log in, and become root")
	flag.StringVar(&m.MAC, "mac", "", "Ethernet address of the VM's interface")
	flag.TextVar(&m.Address, "address", netip.Prefix{}, "address and prefix length, e.g. 10.0.0.21/24; without it, DHCP")
	flag.TextVar(&m.Gateway, "gateway", netip.Addr{}, "default gateway")
	key := flag.String("key", "", "file of public SSH keys (.pub)")
	scratch := flag.String("scratch", "", "serial of a further disk, to be mounted on /scratch")
	out := flag.String("out", "seed.iso", "file to write")
	flag.Parse()

	if err := render(m, *key, *scratch, *out); err != nil {
		fmt.Fprintln(os.Stderr, "render-seed:", err)
		os.Exit(1)
	}
}

func render(m cloudinit.Machine, keyFile, scratch, out string) error {
	keys, err := os.ReadFile(keyFile)
	if err != nil {
		return fmt.Errorf("-key: %w", err)
	}
	for line := range strings.Lines(string(keys)) {
		if line = strings.TrimSpace(line); line != "" {
			m.AuthorizedKeys = append(m.AuthorizedKeys, line)
		}
	}
	if m.Gateway.IsValid() {
		m.DNS = []netip.Addr{m.Gateway}
	}
	if scratch != "" { // found by its serial, and formatted only when it is empty
		m.Disks = []cloudinit.Mount{{Serial: scratch, Path: "/scratch"}}
	}

	seed, err := cloudinit.RenderWorker(m)
	if err != nil {
		return err
	}
	digest, err := seed.Digest()
	if err != nil {
		return err
	}
	image, err := seed.ISO()
	if err != nil {
		return err
	}
	// An image is readable by whoever may read the storage it is put on: there is
	// nothing secret in it, and so nothing to hide here.
	if err := os.WriteFile(out, image, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s  %d bytes  digest %s  instance %s\n", out, len(image), digest[:12], seed.MetaData.InstanceID)
	return nil
}
