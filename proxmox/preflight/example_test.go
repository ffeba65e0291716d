package preflight_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A host with one card is asked for two.
func Example() {
	ctx := context.Background()
	sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
	defer sim.Close()
	id, token := sim.Token()
	client, err := proxmox.Dial(ctx, proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: sim.Client().Transport}})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := preflight.Check(ctx, client, preflight.Requirements{
		Owner: "mine",
		Hosts: []preflight.Host{{Name: "pve1"}},
		VMs: []preflight.VM{
			{Name: "train", Host: "pve1", Cores: 8, Memory: 64 * proxmox.GiB, GPUs: preflight.GPUs{Count: 1}},
			{Name: "infer", Host: "pve1", Cores: 4, Memory: 16 * proxmox.GiB, GPUs: preflight.GPUs{Count: 1}},
		},
	}, preflight.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range report.WithVerdict(preflight.Error) {
		fmt.Println(f.ID, f.Evidence)
	}
	// Output:
	// PX4 infer requests 1 GPU, and host pve1 has 0 available: 0000:01:00 goes to train
}
