// Command 07-whole-cluster creates a GPU cluster from a Go value with -up; without -up, it
// prints the plan. It shows progress as one line per event.
//
//	export PROXMOX=https://10.0.0.5:8006 PROXMOX_TOKEN=homelab@pve!me PROXMOX_TOKEN_SECRET=… PROXMOX_FINGERPRINT=7E:14:…
//	go run . -key ~/.ssh/id_ed25519 -up
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

func main() {
	keyFile, up := flag.String("key", "", "private SSH key to log in with"), flag.Bool("up", false, "do it")
	flag.Parse()
	ctx, host, id, fingerprint := context.Background(), os.Getenv("PROXMOX"), os.Getenv("PROXMOX_TOKEN"), os.Getenv("PROXMOX_FINGERPRINT")
	reference, _ := spec.ParseSecretRef("env:PROXMOX_TOKEN_SECRET")
	want := &spec.Spec{ // anything that a cluster.yaml can have; a zero field has its default
		Name:    "value",
		Proxmox: spec.Proxmox{Endpoint: host, Host: "pve1", TokenID: id, Fingerprint: fingerprint, TokenSecret: reference},
		Network: spec.Network{Prefix: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1")},
		Nodes: []spec.Node{
			{Name: "server1", Role: spec.Server, Address: netip.MustParsePrefix("10.0.0.11/24"), Storage: "vmdata"},
			{Name: "gpu1", Address: netip.MustParsePrefix("10.0.0.21/24"), Storage: "vmdata", GPUs: spec.GPURequest{Count: 1}},
		},
	}
	wrong := cluster.Complete(want) // fills in the defaults, and checks everything
	token, unset := secret.FromEnv("PROXMOX_TOKEN_SECRET")
	key, missing := ssh.LoadSigner(*keyFile)
	pve, refused := proxmox.Dial(ctx, proxmox.Config{Endpoint: host, TokenID: id, TokenSecret: token, Fingerprint: fingerprint})
	fatal(cmp.Or(wrong, unset, missing, refused))
	c, err := cluster.New(want, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{key}, Dir: ".cluster"})
	fatal(err)
	if *up {
		_, err = c.Up().Run(ctx, func(e converge.Event) { fmt.Println(e.Step, e.Kind, e.Diff, e.Message) })
		fatal(err)
	}
	plan, err := c.Up().Plan(ctx)
	fatal(err)
	fmt.Printf("%d steps, something to do: %v, in doubt: %v\n", len(plan.Items), plan.Changes(), plan.Err())
}

func fatal(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
