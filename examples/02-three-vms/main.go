// Command 02-three-vms creates three VMs from a template with the guest agent, and waits until
// they answer. A second run changes what differs from this file.
//
//	export PROXMOX=10.0.0.5 PROXMOX_TOKEN=homelab@pve!me PROXMOX_TOKEN_SECRET=… PROXMOX_FINGERPRINT=7E:14:…
//	go run . -host pve1 -template 9000 -key ~/.ssh/id_ed25519.pub
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
)

func main() {
	host, template := flag.String("host", "pve1", "Proxmox host"), flag.Int("template", 9000, "VMID of the template")
	keyFile, ctx := flag.String("key", "", "file of a public SSH key"), context.Background()
	flag.Parse()
	key, missing := os.ReadFile(*keyFile)
	token, unset := secret.FromEnv("PROXMOX_TOKEN_SECRET")
	pve, err := proxmox.Dial(ctx, proxmox.Config{
		Endpoint: os.Getenv("PROXMOX"), TokenID: os.Getenv("PROXMOX_TOKEN"), TokenSecret: token, Fingerprint: os.Getenv("PROXMOX_FINGERPRINT"),
	})
	for i := 0; i < 3 && cmp.Or(missing, unset, err) == nil; i++ {
		err = ensure(ctx, pve, i+1, *host, *template, strings.TrimSpace(string(key)))
	}
	if err := cmp.Or(missing, unset, err); err != nil {
		log.Fatal(err)
	}
}

func ensure(ctx context.Context, pve *proxmox.Client, number int, host string, template int, key string) error {
	name, mac := fmt.Sprintf("worker%d", number), fmt.Sprintf("bc:24:11:03:00:%02x", number)
	seed, err := cloudinit.RenderWorker(cloudinit.Machine{Hostname: name, User: "ubuntu", MAC: mac, AuthorizedKeys: []string{key}})
	if err != nil {
		return err
	}
	image, err := seed.ISO()
	if err != nil {
		return err
	}
	volume, err := pve.Storages.Upload(ctx, host, "local", name+".iso", image)
	if err != nil {
		return err
	}
	vm, err := pve.VMs.Ensure(ctx, proxmox.VMSpec{Name: name, Host: host, Owner: "three-vms", TemplateID: template, Seed: volume, Running: true,
		Cores: 2, Memory: 4 * proxmox.GiB, NICs: []proxmox.NIC{{Bridge: "vmbr0", MAC: mac}}})
	if err == nil {
		err = pve.Agents.Wait(ctx, vm)
	}
	fmt.Println(vm, "answers:", err == nil)
	return err
}
