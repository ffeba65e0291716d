// Command 07-whole-cluster creates a GPU cluster from a Go value with -up; without -up, it
// prints the plan. It shows progress as one line per event.
//
//	export PROXMOX=https://10.0.0.5:8006 PROXMOX_TOKEN=homelab@pve!me PROXMOX_TOKEN_SECRET=… PROXMOX_FINGERPRINT=7E:14:…
//	go run . -key ~/.ssh/id_ed25519 -up
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

type object map[string]any

func main() {
	keyFile, up := flag.String("key", "", "private SSH key to log in with"), flag.Bool("up", false, "do it")
	flag.Parse()
	ctx, host, id, fingerprint := context.Background(), os.Getenv("PROXMOX"), os.Getenv("PROXMOX_TOKEN"), os.Getenv("PROXMOX_FINGERPRINT")
	text, _ := json.Marshal(object{ // anything that a cluster.yaml can have, with its defaults and checks
		"name":    "value",
		"proxmox": object{"endpoint": host, "host": "pve1", "token": id, "fingerprint": fingerprint, "secret": "env:PROXMOX_TOKEN_SECRET"},
		"network": object{"prefix": "10.0.0.0/24", "gateway": "10.0.0.1"}, "defaults": object{"storage": "vmdata"},
		"pools": object{
			"server": object{"role": "server", "count": 1, "addresses": []string{"10.0.0.11"}},
			"gpu":    object{"count": 1, "addresses": []string{"10.0.0.21"}, "gpus": 1},
		},
	})
	want, wrong := clusterfile.Parse("value", text)
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
